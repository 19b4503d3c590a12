package checks

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
)

// anonymous is the user name of unauthenticated requests
// (k8s.io/apiserver/pkg/authentication/user).
const anonymous = "system:anonymous"

// serviceAccounts is the prefix of the user names of service accounts.
const serviceAccounts = "system:serviceaccount:"

// login parses the kubeconfig as the driver does, and asks the server for the user name. It reports
// whether the identity can send requests.
func (i *identity) login(ctx context.Context, clients *providerapi.Cache, raw []byte, now time.Time) (results []Result, ok bool) {
	s := i.about(checkCredentials, i.From)

	expiries, err := kubeconfig.Expiries(raw)
	if err == nil {
		i.clients, err = clients.For(raw)
	}

	if err != nil {
		return s.fail("the kubeconfig is invalid: "+spi.AsError(err).Message,
			"use a kubeconfig with the server, its CA certificate, and a token or client certificate, all inline"), false
	}

	i.Server = i.clients.Server
	results = i.authenticate(ctx, s)
	ok = results[0].Level != Error

	for _, e := range expiries {
		results = append(results, checkLifetime(i.about(checkExpiry, e.Kind+" in "+i.From), e, now, i.renewal())...)
	}

	if ok && i.Name == Driver && kubeconfig.HasOpaqueToken(raw) {
		results = append(results, i.about(checkExpiry, "token in "+i.From).warn("its expiry is unknown: it is not a JSON Web Token",
			"ask the issuer of the token when it expires, and replace it in time; or "+i.renewal())...)
	}

	return results, ok
}

func (i *identity) authenticate(ctx context.Context, s subject) []Result {
	answer, err := review(ctx, i.clients.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create, &authenticationv1.SelfSubjectReview{})

	switch {
	case err != nil:
		return i.refused(s, providerapi.Explain(err))
	case answer.Status.UserInfo.Username == anonymous:
		return s.fail("the server "+i.Server+" treats the user as anonymous: the kubeconfig has no credentials",
			"add a token or a client certificate to the kubeconfig")
	}

	i.User = answer.Status.UserInfo.Username

	return s.ok(fmt.Sprintf("server %s authenticates the user as %s", i.Server, i.User))
}

func (i *identity) refused(s subject, err error) []Result {
	switch {
	case errors.Is(err, spi.ErrForbidden):
		return s.warn(fmt.Sprintf("server %s responds, but does not return the user name", i.Server),
			"bind the ClusterRole system:basic-user to the Group system:authenticated, as Kubernetes does by default")
	case errors.Is(err, spi.ErrUnauthenticated):
		return s.fail(fmt.Sprintf("server %s: %s", i.Server, err), i.renewal())
	default:
		return s.fail(fmt.Sprintf("server %s: %s", i.Server, err),
			"compare the server in the kubeconfig with the output of kubectl cluster-info, and connect to it from the machine controller's network: "+
				"curl --insecure "+quoted(i.Server+"/version"))
	}
}

// renewal returns how the identity gets new credentials. Its user
// name is known only after it has logged in.
func (i *identity) renewal() string {
	into := "put new credentials into " + quoted(i.From)

	account, ok := strings.CutPrefix(i.User, serviceAccounts)
	namespace, name, _ := strings.Cut(account, ":")

	switch {
	case ok:
		return into + ": " + kubectlIn(namespace, "create token", name) + " --duration=720h"
	case i.User == "":
		return into + "; for a service account: " + kubectlIn(i.clients.Namespace, "create token NAME") + " --duration=720h"
	default:
		return into + ": a client certificate or a token of " + quoted(i.User)
	}
}

// checkLifetime warns when a fifth of the credentials' lifetime is left, but no earlier than a week
// before they expire: credentials that are rotated every hour are renewed in time.
func checkLifetime(s subject, e kubeconfig.Expiry, now time.Time, renew string) []Result {
	const week = 7 * 24 * time.Hour

	early := week
	if lifetime := e.Lifetime(); lifetime > 0 {
		early = min(week, lifetime/5)
	}

	left := e.End.Sub(now)
	message := "expires in " + duration.HumanDuration(left) + ", at " + e.End.UTC().Format(time.RFC3339)

	switch {
	case left <= 0:
		return s.fail("expired "+duration.HumanDuration(-left)+" ago", renew)
	case left < early:
		return s.warn(message, renew)
	default:
		return s.ok(message)
	}
}

// checkNamespace checks that the namespace of the machines exists and is their own. Without permission to read
// it, the dry run shows whether it exists.
func (c *checker) checkNamespace(ctx context.Context) []Result {
	s := c.viewer.about(checkNamespace, "Namespace "+c.namespace)

	switch c.namespace {
	case metav1.NamespaceDefault:
		return s.warn("is the default namespace: machines would share it with unrelated objects",
			"set another namespace in the current context of the kubeconfig: kubectl config set-context --current --namespace=…")
	case metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease:
		return s.fail("is reserved for Kubernetes", "set another namespace in the current context of the kubeconfig")
	}

	found, err := get(ctx, c.viewer.clients.Kubernetes.CoreV1().Namespaces().Get, c.namespace)

	switch {
	case providerapi.Absent(err):
		return s.fail("does not exist", "correct the namespace in the current context of the kubeconfig, or create it: "+kubectl("create namespace", c.namespace))
	case err == nil && found.DeletionTimestamp != nil:
		return s.fail("is being deleted", "set another namespace in the current context of the kubeconfig, or wait and create it again: "+
			kubectl("create namespace", c.namespace))
	case err == nil, errors.Is(providerapi.Explain(err), spi.ErrForbidden):
		return s.ok("is the namespace of the machines")
	default:
		return s.notChecked(err, kubectl("get namespace", c.namespace))
	}
}
