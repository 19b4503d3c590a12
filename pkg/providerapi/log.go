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

// lastLines are the numbers of lines at the end of a log that is too long to be read as a whole. kubelet cuts
// the end of an answer that is too long, so fewer lines are read until they fit: the runtime divides lines of more
// than 16 KiB.
var lastLines = []int64{1000, 125, 15}

// Log returns the log of a container in the namespace of the kubeconfig, each line with its time, in one request;
// of a log that is longer than transport.MaxText, its beginning, and its end in up to three others. It is
// untrusted, and may contain secrets: client-go does not log it. Its errors are those of Once.
func (c *Clients) Log(ctx context.Context, pod, container string) (begin, end string, _ error) {
	options := corev1.PodLogOptions{Container: container, Timestamps: true, LimitBytes: ptr.To[int64](transport.MaxText)}

	begin, err := c.readLog(ctx, pod, &options)
	if err != nil || len(begin) < transport.MaxText {
		return begin, "", err
	}

	for _, lines := range lastLines {
		options.TailLines = &lines

		end, err = c.readLog(ctx, pod, &options)
		if err != nil || len(end) < transport.MaxText {
			break
		}
	}

	return begin, end, err
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
