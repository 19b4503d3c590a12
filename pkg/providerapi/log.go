// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// lastLines is the number of lines at the end of a log that is too long to be read as a whole.
const lastLines = 1000

// Log returns the log of a container in the namespace of the kubeconfig, each line with its time, in one request;
// of a log that is longer than transport.MaxText, the beginning and the end, in two. It is untrusted, and may
// contain secrets: client-go does not log it. Its errors are those of Once.
func (c *Clients) Log(ctx context.Context, pod, container string) (string, error) {
	options := corev1.PodLogOptions{Container: container, Timestamps: true, LimitBytes: ptr.To[int64](transport.MaxText)}

	first, err := c.readLog(ctx, pod, &options)
	if err != nil || len(first) < transport.MaxText {
		return first, err
	}

	options.TailLines = ptr.To[int64](lastLines)
	last, err := c.readLog(ctx, pod, &options)

	return first + "\n" + last, err
}

func (c *Clients) readLog(ctx context.Context, pod string, options *corev1.PodLogOptions) (string, error) {
	ctx = klog.NewContext(transport.ExpectText(ctx), logr.Discard())

	request := c.Kubernetes.CoreV1().Pods(c.Namespace).GetLogs(pod, options)
	text, err := Once(ctx, readTimeout, func(ctx context.Context) ([]byte, error) {
		result := request.Do(ctx)
		if err := result.Error(); err != nil { // Unlike Raw's error, it has the server's message.
			return nil, err
		}

		return result.Raw()
	})

	return string(text), err
}
