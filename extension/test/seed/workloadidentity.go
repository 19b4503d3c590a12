// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	securityclientset "github.com/gardener/gardener/pkg/client/security/clientset/versioned"
	tokenrequestor "github.com/gardener/gardener/pkg/gardenlet/controller/tokenrequestor/workloadidentity"
	"github.com/gardener/gardener/pkg/utils/workloadidentity"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

const (
	// ExampleAuthentication is the configuration of the provider cluster's API server.
	ExampleAuthentication = "authentication-configuration.yaml"
	// WorkloadIdentityAudience is the audience that the provider cluster accepts.
	WorkloadIdentityAudience = "provider.example.com"

	// workloadIdentityIssuer is that of the example. Nothing serves it.
	workloadIdentityIssuer = "https://discovery.ingress.garden.example.com/garden/workload-identity/issuer"
	// workloadIdentityLifetime is the lifetime of tokens: the shortest one that gardener-apiserver issues.
	workloadIdentityLifetime = 10 * time.Minute
	// tokenID is the claim by which the audit log tells tokens apart.
	tokenID = "gardener.cloud/token-id"
	// namedIdentity is the user in the shipped manifests.
	namedIdentity = "gardener.cloud:workloadidentity:garden-dev:provider-cluster:UID"
)

// createSigningKey creates the key of the garden's issuer. It returns its file.
func (s *Seed) createSigningKey(folder string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}

	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}

	s.workloadIdentityKey = key
	path := filepath.Join(folder, "workload-identity.key")

	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// TrustWorkloadIdentities lets the API server of the provider cluster trust the garden's issuer, whose server
// it does not reach: it reads the keys from a copy, as the documentation describes. The copy is served until
// end is called.
func (s *Seed) TrustWorkloadIdentities(ctx context.Context) (end func() error, _ error) {
	folder := filepath.Join(s.Folder, "discovery")

	ca, err := writeServingCertificate(folder, "discovery", "localhost")
	if err != nil {
		return nil, err
	}

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}

	origin := "https://localhost:" + port

	handler, err := s.discovery(origin)
	if err != nil {
		return nil, err
	}

	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)

	go func() {
		served <- server.ServeTLS(listener, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	}()

	end = func() error {
		closed := server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			closed = errors.Join(closed, err)
		}

		return closed
	}

	if err := errors.Join(s.writeAuthentication(origin, string(ca)), s.awaitTrust(ctx)); err != nil {
		return nil, errors.Join(err, end())
	}

	return end, nil
}

// awaitTrust waits until the API server of the provider cluster has read its configuration and the keys.
func (s *Seed) awaitTrust(ctx context.Context) error {
	const every, atMost = 500 * time.Millisecond, 3 * time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		return s.AuthenticateAs(ctx, "garden-dev") == nil, nil
	})

	return wrap(err, "wait until the provider cluster trusts the garden's issuer")
}

// AuthenticateAs sends a request with a token of a WorkloadIdentity of a namespace of the garden to the provider
// cluster.
func (s *Seed) AuthenticateAs(ctx context.Context, namespace string) error {
	issuer, err := workloadidentity.NewTokenIssuer(s.workloadIdentityKey, workloadIdentityIssuer, 0, int64(time.Hour/time.Second))
	if err != nil {
		return err
	}

	token, _, err := issuer.IssueToken("gardener.cloud:workloadidentity:"+namespace+":probe:UID", []string{WorkloadIdentityAudience}, int64(time.Minute/time.Second))
	if err != nil {
		return err
	}

	config := rest.AnonymousClientConfig(s.providerConfig)
	config.BearerToken = token

	provider, err := client.New(config, client.Options{Scheme: providerScheme()})
	if err != nil {
		return err
	}

	return provider.Create(ctx, &authenticationv1.SelfSubjectReview{})
}

// discovery serves the two documents of the issuer. The address of the keys in the first one is that of the copy.
func (s *Seed) discovery(origin string) (http.Handler, error) {
	config, err := workloadidentity.OpenIDConfig(workloadIdentityIssuer, &s.workloadIdentityKey.PublicKey)
	if err != nil {
		return nil, err
	}

	keys, err := workloadidentity.JWKS(&s.workloadIdentityKey.PublicKey)
	if err != nil {
		return nil, err
	}

	config = []byte(strings.Replace(string(config), workloadIdentityIssuer+"/jwks", origin+"/jwks", 1))
	mux := http.NewServeMux()

	for path, document := range map[string][]byte{"/.well-known/openid-configuration": config, "/jwks": keys} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(document) // The client may be gone.
		})
	}

	return mux, nil
}

// writeAuthentication writes the example into the file that the API server watches (test/lab/controlplane).
func (s *Seed) writeAuthentication(origin, ca string) error {
	config := map[string]any{}

	raw, err := readExample(ExampleAuthentication)
	if err != nil {
		return err
	}

	if err := yaml.Unmarshal(raw, &config); err != nil {
		return err
	}

	authenticators, _ := config["jwt"].([]any)
	authenticator, _ := authenticators[0].(map[string]any)
	issuer, _ := authenticator["issuer"].(map[string]any)
	issuer["discoveryURL"] = origin + "/.well-known/openid-configuration"
	issuer["certificateAuthority"] = ca

	if raw, err = yaml.Marshal(config); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(filepath.Dir(s.state.ProviderKubeconfig), "authentication.yaml"), raw, 0o600)
}

// CreateWorkloadIdentity creates a WorkloadIdentity in the garden for the machines of an account.
func (s *Seed) CreateWorkloadIdentity(ctx context.Context, name string, account Account, audiences ...string) (*securityv1alpha1.WorkloadIdentity, error) {
	config, err := yaml.Marshal(map[string]any{
		"apiVersion":           api.SchemeGroupVersion.String(),
		"kind":                 "WorkloadIdentityConfig",
		"server":               s.providerConfig.Host,
		"certificateAuthority": string(s.providerConfig.CAData),
		"namespace":            account.namespace,
	})
	if err != nil {
		return nil, err
	}

	if config, err = yaml.YAMLToJSON(config); err != nil {
		return nil, err
	}

	identity := &securityv1alpha1.WorkloadIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: name},
		Spec: securityv1alpha1.WorkloadIdentitySpec{
			Audiences:    audiences,
			TargetSystem: securityv1alpha1.TargetSystem{Type: providerType, ProviderConfig: &runtime.RawExtension{Raw: config}},
		},
	}

	return identity, wrap(s.Garden.Create(ctx, identity), "create WorkloadIdentity "+name)
}

// BindWorkloadIdentity binds the Roles of an account to the user of a WorkloadIdentity: the account loses them.
func (s *Seed) BindWorkloadIdentity(ctx context.Context, identity *securityv1alpha1.WorkloadIdentity, account Account) error {
	account.manifests = "provider-namespace-workload-identity"
	account.identity = identity.Status.Sub

	return s.applyAccount(ctx, account)
}

// UseWorkloadIdentity replaces the credentials of the shoot by those of a WorkloadIdentity, as gardenlet does when
// the Shoot refers to another CredentialsBinding. gardenlet's controller renews the token in these intervals, until
// end is called.
func (s *Botanist) UseWorkloadIdentity(ctx context.Context, identity *securityv1alpha1.WorkloadIdentity, interval time.Duration) (end func() error, _ error) {
	clients, err := securityclientset.NewForConfig(s.seed.gardenConfig)
	if err != nil {
		return nil, err
	}

	requestor := &tokenrequestor.Reconciler{
		SeedClient:           s.seed.Client,
		GardenSecurityClient: clients,
		Config: &gardenletconfigv1alpha1.TokenRequestorWorkloadIdentityControllerConfiguration{
			TokenExpirationDuration: &metav1.Duration{Duration: workloadIdentityLifetime},
		},
		Clock:      clock.RealClock{},
		JitterFunc: func(time.Duration, float64) time.Duration { return interval },
	}
	labels := map[string]string{v1beta1constants.GardenerPurpose: v1beta1constants.SecretNameCloudProvider}

	if err := workloadidentity.Deploy(ctx, s.seed.Client, identity, v1beta1constants.SecretNameCloudProvider, s.Namespace, nil, labels, nil); err != nil {
		return nil, err
	}

	if _, err := requestor.Reconcile(ctx, s.credentialsRequest()); err != nil {
		return nil, wrap(err, "request a token")
	}

	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)

	go func() { ended <- s.renew(ctx, requestor) }()

	return func() error {
		cancel()

		return <-ended
	}, nil
}

func (s *Botanist) credentialsRequest() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: s.Namespace, Name: v1beta1constants.SecretNameCloudProvider}}
}

// renew lets gardenlet's controller renew the token of the shoot until the context ends.
func (s *Botanist) renew(ctx context.Context, requestor reconcile.Reconciler) error {
	for {
		result, err := requestor.Reconcile(ctx, s.credentialsRequest())
		if err != nil && ctx.Err() == nil {
			return wrap(err, "renew the token")
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(result.RequeueAfter):
		}
	}
}

// Token is the use of a token of a WorkloadIdentity.
type Token struct {
	ID string
	// UserAgents are the programs that used it.
	UserAgents []string
	// First and Last are the times of its first and last use.
	First, Last time.Time
	Requests    int
}

// Tokens returns the tokens of a WorkloadIdentity, in the order of their first use, from the audit log of the
// provider cluster.
func (s *Seed) Tokens(identity *securityv1alpha1.WorkloadIdentity) ([]*Token, error) {
	var tokens []*Token

	byID := map[string]*Token{}

	err := eachRequest(s.state.ProviderKubeconfig, func(r *request) {
		if r.User.Username != "gardener:"+identity.Status.Sub || len(r.User.Extra[tokenID]) == 0 {
			return
		}

		id := r.User.Extra[tokenID][0]
		if byID[id] == nil {
			byID[id] = &Token{ID: id, First: r.RequestReceivedTimestamp.Time}
			tokens = append(tokens, byID[id])
		}

		byID[id].add(r)
	})

	return tokens, err
}

func (t *Token) add(r *request) {
	program, _, _ := strings.Cut(r.UserAgent, "/")
	if !slices.Contains(t.UserAgents, program) {
		t.UserAgents = append(t.UserAgents, program)
	}

	t.Requests++
	t.Last = r.RequestReceivedTimestamp.Time
}

// Unauthenticated returns the requests of all programs in the namespace of the machines whose credentials the
// provider cluster did not accept.
func (s *Botanist) Unauthenticated() ([]string, error) {
	var requests []string

	err := eachRequest(s.seed.state.ProviderKubeconfig, func(r *request) {
		if r.ResponseStatus.Code == http.StatusUnauthorized && strings.Contains(r.URI, "/namespaces/"+s.ProviderNamespace+"/") {
			requests = append(requests, r.UserAgent+" "+r.Verb+" "+r.URI)
		}
	})

	return requests, err
}
