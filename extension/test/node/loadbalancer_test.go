// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// webPort is the port of the application, and the node port of its Service: no kube-proxy runs in the guests, so the application listens on the
// port of its Node.
const webPort = 30080

const greeting = "hello from the shoot"

// requireLoadBalancer requires that a client outside of the provider cluster reaches a pod of the shoot through the load balancer of its Service,
// and with the policy Local only while the pod is ready.
func requireLoadBalancer(t *testing.T, worker *corev1.Node) {
	t.Helper()

	pod := newApplication(t, worker)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: pod.Labels,
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, NodePort: webPort, TargetPort: intstr.FromInt32(webPort)}},
		},
	}
	require.NoError(t, theSeed.Target.Create(t.Context(), service))

	eventually(t, time.Minute, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKeyFromObject(service), service)

		return err == nil && len(service.Status.LoadBalancer.Ingress) == 1, fmt.Sprint("no address: ", err)
	})

	address := "http://" + service.Status.LoadBalancer.Ingress[0].IP
	eventually(t, time.Minute, reaches(address, true))

	before := client.MergeFrom(service.DeepCopy())
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	require.NoError(t, theSeed.Target.Patch(t.Context(), service, before))
	eventually(t, time.Minute, reaches(address, true))

	require.NoError(t, theSeed.Target.Delete(t.Context(), pod))
	eventually(t, 2*time.Minute, reaches(address, false))
	require.NoError(t, theSeed.DeleteLoadBalancers(t.Context()))
}

// newApplication runs a pod on the worker that serves the greeting, and returns when it is ready.
func newApplication(t *testing.T, worker *corev1.Node) *corev1.Pod {
	t.Helper()

	script := fmt.Sprintf("/bin/busybox mkdir -p /www && echo %s > /www/index.html && exec httpd -f -p %d -h /www", greeting, webPort)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      "web",
			Labels:    map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{
			NodeName:    worker.Name,
			HostNetwork: true,
			Containers: []corev1.Container{{
				Name:            "web",
				Image:           images.Busybox,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{"sh", "-c", script},
			}},
		},
	}
	require.NoError(t, theSeed.Target.Create(t.Context(), pod))

	eventually(t, 5*time.Minute, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKeyFromObject(pod), pod)

		return err == nil && pod.Status.Phase == corev1.PodRunning, fmt.Sprint(err, pod.Status.ContainerStatuses)
	})

	return pod
}

// reaches checks whether a client gets the greeting. Each request has a connection of its own.
func reaches(address string, wanted bool) func(context.Context) (bool, string) {
	web := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} //nolint:mnd // an emulated guest is slow

	return func(ctx context.Context) (bool, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return false, err.Error()
		}

		response, err := web.Do(request)
		if err != nil {
			return !wanted, err.Error()
		}

		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it has been read

		return wanted == (err == nil && string(text) == greeting+"\n"), string(text)
	}
}
