// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	checkCredentials = "credentials"
	checkExpiry      = "credentials-expiry"
	// anonymous is the user name of unauthenticated requests
	// (k8s.io/apiserver/pkg/authentication/user).
	anonymous = "system:anonymous"
)

// Credentials is a kubeconfig and its origin.
type Credentials struct {
	// Kubeconfig is untrusted.
	Kubeconfig []byte
	// From is the origin of the kubeconfig.
	From string
}

// logins are the identities that have logged in.
type logins struct {
	// identities are those of all kubeconfigs, including those that cannot log in.
	identities []Identity
	// driver is the identity that creates machines, viewer the one that sends all other requests;
	// nil if the identity cannot log in. They may be the same.
	driver, viewer *reader
	// namespace is that of the machines.
	namespace string
}

// logIn logs in the identities of both kubeconfigs, either of which may be nil.
func logIn(ctx context.Context, driver, admin *Credentials, now time.Time) (*logins, []Result) {
	var results []Result

	l := &logins{}
	clients := providerapi.NewCache(providerapi.Options{QPS: requestsPerSecond, Burst: burst})
	all := map[string]*reader{}

	for _, by := range []struct {
		name string
		*Credentials
	}{{Driver, driver}, {Admin, admin}} {
		if by.Credentials == nil {
			continue
		}

		r := &reader{Identity: Identity{Name: by.name, From: by.From}}
		all[r.Name] = r
		login, ok := r.logIn(ctx, clients, by.Kubeconfig, now)
		results = append(results, login...)
		l.add(r)

		if !ok {
			continue
		}

		l.viewer = r
		if r.Name == Driver || driver == nil {
			l.driver = r
		}
	}

	return l, append(results, l.compare(ctx, all[Driver], all[Admin])...)
}

// add adds an identity to the report, and reads the machines' namespace with it. The driver's kubeconfig comes first
// and determines the namespace even if its login fails.
func (l *logins) add(r *reader) {
	l.identities = append(l.identities, Identity{
		Name:   r.Name,
		From:   statustext.Printable(r.From),
		Server: statustext.Printable(r.Server),
		User:   statustext.Printable(r.User),
	})

	if r.clients == nil {
		return
	}

	if l.namespace == "" {
		l.namespace = r.clients.Namespace
	}

	clients := *r.clients
	clients.Namespace = l.namespace
	r.clients = &clients
}

// compare compares the clusters of both identities. The admin's view of another cluster does not apply to the
// driver's machines. An identity is nil if it was not given.
func (l *logins) compare(ctx context.Context, driver, admin *reader) []Result {
	if driver == nil || admin == nil || l.viewer != admin {
		return nil
	}

	s := admin.about(admin.From)
	s.check = checkCredentials
	remedy := "set --provider-kubeconfig to the kubeconfig of an admin of the same cluster, and check classes of different clusters one by one"

	var same, known bool
	if l.driver != nil {
		same, known = providerapi.SameCluster(ctx, l.driver.clients, admin.clients)
	}

	switch {
	case known && same, !known && driver.Server == admin.Server:
		return nil
	case known:
		l.viewer = l.driver

		return s.fail(fmt.Sprintf("server %s is not the cluster of the machines, %s: the driver's account is used instead", admin.Server, driver.Server), remedy)
	default:
		return s.warn(fmt.Sprintf("server %s may not be the cluster of the machines, %s, which cannot be compared with it: the results of the admin's "+
			"account apply only if both are the same cluster", admin.Server, driver.Server), remedy)
	}
}

// logIn parses the kubeconfig as the driver does, and asks the server for the user name. It reports
// whether the identity can send requests.
func (r *reader) logIn(ctx context.Context, clients *providerapi.Cache, raw []byte, now time.Time) (results []Result, ok bool) {
	s := r.about(r.From)
	s.check = checkCredentials

	expiries, err := kubeconfig.Expiries(raw)
	if err == nil {
		r.clients, err = clients.For(raw)
	}

	if err != nil {
		return s.fail("the kubeconfig is invalid: "+spi.AsError(err).Message,
			"use a kubeconfig with the server, its CA certificate, and a token or client certificate, all inline"), false
	}

	r.Server = r.clients.Server
	results = r.authenticate(ctx, s)
	ok = results[0].Level != Error
	s.check = checkExpiry

	for _, e := range expiries {
		s.name = e.Kind + " in " + r.From
		results = append(results, checkLifetime(s, e, now, r.renewal())...)
	}

	if ok && r.Name == Driver && kubeconfig.HasOpaqueToken(raw) {
		s.name = "token in " + r.From
		results = append(results, s.warn("its expiry is unknown: it is not a JSON Web Token",
			"ask the issuer of the token when it expires, and replace it in time; or "+r.renewal())...)
	}

	return results, ok
}

func (r *reader) authenticate(ctx context.Context, s subject) []Result {
	answer, err := review(ctx, r.clients.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create, &authenticationv1.SelfSubjectReview{})
	explained := providerapi.Explain(err)

	switch {
	case errors.Is(explained, spi.ErrForbidden):
		return s.warn(fmt.Sprintf("server %s responds, but does not return the user name", r.Server),
			"bind the ClusterRole system:basic-user to the Group system:authenticated, as Kubernetes does by default")
	case errors.Is(explained, spi.ErrUnauthenticated):
		return s.fail(fmt.Sprintf("server %s: %s", r.Server, explained), r.renewal())
	case err != nil:
		return s.fail(fmt.Sprintf("server %s: %s", r.Server, explained),
			"compare the server in the kubeconfig with the output of kubectl cluster-info, and connect to it from the machine controller's network: "+
				"curl --insecure "+quoted(r.Server+"/version"))
	case answer.Status.UserInfo.Username == anonymous:
		return s.fail("the server "+r.Server+" treats the user as anonymous: the kubeconfig has no credentials",
			"add a token or a client certificate to the kubeconfig")
	}

	r.User = answer.Status.UserInfo.Username

	return s.ok(fmt.Sprintf("server %s authenticates the user as %s", r.Server, r.User))
}

// renewal returns how the identity gets new credentials. Its user
// name is known only after it has logged in.
func (r *reader) renewal() string {
	into := "put new credentials into " + quoted(r.From)

	account, ok := strings.CutPrefix(r.User, serviceAccounts)
	namespace, name, _ := strings.Cut(account, ":")

	switch {
	case ok:
		return into + ": " + kubectlIn(namespace, "create token", name) + " --duration=720h"
	case r.User == "":
		return into + "; for a service account: " + kubectlIn(r.clients.Namespace, "create token NAME") + " --duration=720h"
	default:
		return into + ": a client certificate or a token of " + quoted(r.User)
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
