// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitVolumes writes the projected Secrets as soon as they have all keys.
func (k *kubelet) awaitVolumes(ctx context.Context, deployment *appsv1.Deployment) error {
	const every, atMost = 100 * time.Millisecond, time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		return k.writeVolumes(ctx, deployment)
	})

	return wrap(err, "write the volumes of Deployment "+k.key.String())
}

// writeVolumes writes the Secrets and ConfigMaps, and makes the folders of the other volumes. It reports false while
// one of the Secrets has not all keys, for which a kubelet waits too.
func (k *kubelet) writeVolumes(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.EmptyDir != nil {
			if err := os.MkdirAll(filepath.Join(k.folder, volume.Name), 0o700); err != nil {
				return false, err
			}

			continue
		}

		files, err := k.filesOf(ctx, volume)
		if err != nil || files == nil {
			return false, err
		}

		if err := k.writeFiles(volume, files, deployment.Spec.Template.Spec.Containers); err != nil {
			return false, err
		}
	}

	return true, nil
}

// filesOf returns the files of a volume; nil if it is not complete yet.
func (k *kubelet) filesOf(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	switch {
	case volume.Projected != nil:
		return k.filesOfSecrets(ctx, volume.Projected.Sources)
	case volume.Secret != nil:
		return k.filesOfSecrets(ctx, []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: volume.Secret.SecretName},
			Items:                volume.Secret.Items,
		}}})
	case volume.ConfigMap != nil:
		return k.filesOfConfigMap(ctx, volume.ConfigMap.Name)
	default:
		return nil, fmt.Errorf("volume %s has a source that the lab does not know", volume.Name)
	}
}

func (k *kubelet) filesOfConfigMap(ctx context.Context, name string) (map[string][]byte, error) {
	config := &corev1.ConfigMap{}
	if err := k.seed.watched.Get(ctx, client.ObjectKey{Namespace: k.key.Namespace, Name: name}, config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}

	files := map[string][]byte{}
	for file, content := range config.Data {
		files[file] = []byte(content)
	}

	return files, nil
}

func (k *kubelet) filesOfSecrets(ctx context.Context, sources []corev1.VolumeProjection) (map[string][]byte, error) {
	files := map[string][]byte{}

	for _, source := range sources {
		if source.Secret == nil {
			return nil, errors.New("a source of a projected volume is not a Secret")
		}

		secret := &corev1.Secret{}
		if err := k.seed.watched.Get(ctx, client.ObjectKey{Namespace: k.key.Namespace, Name: source.Secret.Name}, secret); err != nil {
			return nil, client.IgnoreNotFound(err)
		}

		if len(source.Secret.Items) == 0 { // All keys.
			maps.Copy(files, secret.Data)
		}

		for _, item := range source.Secret.Items {
			if len(secret.Data[item.Key]) == 0 {
				return nil, nil //nolint:nilnil // see above
			}

			files[item.Path] = secret.Data[item.Key]
		}
	}

	return files, nil
}

// writeFiles writes the files of a volume. Paths in them are translated as those in arguments; files of a ConfigMap may
// refer to other volumes.
func (k *kubelet) writeFiles(volume corev1.Volume, files map[string][]byte, containers []corev1.Container) error {
	folder := filepath.Join(k.folder, volume.Name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	for name, data := range files {
		for _, container := range containers {
			for _, mount := range container.VolumeMounts {
				if mount.Name == volume.Name || volume.ConfigMap != nil {
					data = bytes.ReplaceAll(data, []byte(mount.MountPath), []byte(filepath.Join(k.folder, mount.Name)))
				}
			}
		}

		for port, free := range k.ports {
			data = bytes.ReplaceAll(data, []byte("//127.0.0.1:"+port), []byte("//127.0.0.1:"+free))
		}

		if err := replaceFile(filepath.Join(folder, name), data); err != nil {
			return err
		}
	}

	return nil
}

// replaceFile changes the content of a file. As with a kubelet, a program reads the old content or the new one.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}

	next, err := os.CreateTemp(filepath.Dir(name), ".next-")
	if err != nil {
		return err
	}

	_, err = next.Write(data)
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}

	return os.Rename(next.Name(), name)
}
