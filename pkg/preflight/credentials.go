package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
)

// anonymous is the user name of unauthenticated requests
// (k8s.io/apiserver/pkg/authentication/user).
const anonymous = "system:anonymous"

// serviceAccounts is the prefix of the user names of service accounts.
const serviceAccounts = "system:serviceaccount:"

// login parses the kubeconfig as the driver does, and asks the server for the user name.
func (i *identity) login(ctx context.Context, clients *providerapi.Cache, now time.Time) []Result {
	v, subject := view{identity: i}, i.from

	expiries, err := kubeconfig.Expiries(i.raw)
	if err == nil {
		i.clients, err = clients.For(i.raw)
	}

	if err != nil {
		return []Result{v.fail(checkCredentials, subject, "the kubeconfig is invalid: "+spi.AsError(err).Message,
			"use a kubeconfig with the server, its CA certificate, and a token or client certificate, all inline")}
	}

	results := []Result{i.authenticate(ctx, v, subject)}
	for _, e := range expiries {
		results = append(results, expiryResult(v, subject, e, now, i.renewal()))
	}

	return results
}

func (i *identity) authenticate(ctx context.Context, v view, subject string) Result {
	review, err := ask(ctx, func(ctx context.Context) (*authenticationv1.SelfSubjectReview, error) {
		return i.clients.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	})

	switch {
	case err != nil:
		return i.refused(v, subject, err)
	case review.Status.UserInfo.Username == anonymous:
		return v.fail(checkCredentials, subject, "the server "+i.clients.Server+" treats the user as anonymous: the kubeconfig has no credentials",
			"add a token or a client certificate to the kubeconfig")
	}

	i.user = review.Status.UserInfo.Username

	return v.ok(checkCredentials, subject, fmt.Sprintf("server %s authenticates the user as %s", i.clients.Server, i.user))
}

func (i *identity) refused(v view, subject string, err error) Result {
	err = providercluster.Explain(err)

	if errors.Is(err, spi.ErrForbidden) {
		return v.warn(checkCredentials, subject, fmt.Sprintf("server %s responds, but does not return the user name", i.clients.Server),
			"bind the ClusterRole system:basic-user to the Group system:authenticated, as Kubernetes does by default")
	}

	if errors.Is(err, spi.ErrUnauthenticated) {
		return v.fail(checkCredentials, subject, fmt.Sprintf("server %s: %s", i.clients.Server, err),
			i.renewal())
	}

	return v.fail(checkCredentials, subject, fmt.Sprintf("server %s: %s", i.clients.Server, err),
		"compare the server in the kubeconfig with the output of kubectl cluster-info, and connect to it from the machine controller's network: "+
			"curl --insecure "+quoted(i.clients.Server+"/version"))
}

// renewal returns how the identity gets new credentials. Its user
// name is known only after it has logged in.
func (i *identity) renewal() string {
	into := "put new credentials into " + quoted(i.from)

	account, ok := strings.CutPrefix(i.user, serviceAccounts)
	namespace, name, _ := strings.Cut(account, ":")

	switch {
	case ok:
		return into + ": " + kubectlIn(namespace, "create token", name) + " --duration=720h"
	case i.user == "":
		return into + "; for a service account: " + kubectlIn(i.clients.Namespace, "create token NAME") + " --duration=720h"
	default:
		return into + ": a client certificate or a token of " + quoted(i.user)
	}
}

// expiryResult warns when a fifth of the credentials' lifetime is left, but no earlier than a week
// before they expire: credentials that are rotated every hour are renewed in time.
func expiryResult(v view, from string, e kubeconfig.Expiry, now time.Time, renew string) Result {
	const week = 7 * 24 * time.Hour

	early := week
	if fifth := e.End.Sub(e.Begin) / 5; !e.Begin.IsZero() && fifth < early {
		early = fifth
	}

	subject, left := e.Kind+" in "+from, e.End.Sub(now)

	switch {
	case left <= 0:
		return v.fail(checkExpiry, subject, "expired "+duration.HumanDuration(-left)+" ago", renew)
	case left < early:
		return v.warn(checkExpiry, subject, "expires in "+duration.HumanDuration(left)+", at "+at(e.End), renew)
	default:
		return v.ok(checkExpiry, subject, "expires in "+duration.HumanDuration(left)+", at "+at(e.End))
	}
}

func at(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// checkNamespace checks only the name of the namespace: the dry run shows whether it exists.
func (c *checker) checkNamespace(context.Context) []Result {
	v, subject := view{identity: c.viewer}, "Namespace "+c.namespace

	if c.namespace == metav1.NamespaceDefault {
		return []Result{v.warn(checkNamespace, subject, "is the default namespace: machines would share it with unrelated objects",
			"set another namespace in the current context of the kubeconfig: kubectl config set-context --current --namespace=…")}
	}

	if c.namespace == metav1.NamespaceSystem || c.namespace == metav1.NamespacePublic || c.namespace == corev1.NamespaceNodeLease {
		return []Result{v.fail(checkNamespace, subject, "is reserved for Kubernetes", "set another namespace in the current context of the kubeconfig")}
	}

	return []Result{v.ok(checkNamespace, subject, "is the namespace of the machines")}
}
