// Package checks checks whether a provider cluster can run the machines of MachineClasses before
// any is created: the driver's user and its permissions, the installed components, whether all
// objects that a class refers to exist and are large enough, and how the API server and KubeVirt
// respond to the objects that the driver would create. mcm-kubevirt preflight prints the results.
// The package changes nothing: all requests are reads, access reviews and dry-run creates. It must
// not depend on machine-controller-manager or a control cluster.
package checks

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Level is the severity of a result.
type Level string

const (
	// OK means that the subject is as required.
	OK Level = "ok"
	// Warning means that the subject may be intended, makes some machines
	// slower or fewer, or could not be checked.
	Warning Level = "warning"
	// Error means that machines cannot be created or cannot run.
	Error Level = "error"
)

// Result is the outcome of one check of one subject.
type Result struct {
	// Class is the MachineClass that the result is about; empty if it is about several.
	Class string `json:"class,omitempty"`
	// Classes are the MachineClasses that share the result; empty if it is about the whole cluster.
	Classes []string `json:"classes,omitempty"`
	// Check is one of the names in docs/preflight.md.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Subject is the checked item: usually a kind and a name.
	Subject string `json:"subject"`
	// Message describes the outcome.
	Message string `json:"message"`
	// Remedy is the command to run or the field to change. It is set unless the level is OK. Names
	// from untrusted input are quoted in it.
	Remedy string `json:"remedy,omitempty"`
	// Identity is the name of the report's identity that sent
	// the requests; empty if none were needed.
	Identity string `json:"identity,omitempty"`
}

// Report is about one provider cluster and namespace.
type Report struct {
	// Server is the host, and the port if given, of the API
	// server; empty if no kubeconfig can be parsed.
	Server string `json:"server"`
	// Namespace is the namespace of the machines.
	Namespace  string     `json:"namespace"`
	Identities []Identity `json:"identities"`
	Results    []Result   `json:"results"`
}

// Identity is a user of the provider cluster that sends requests.
type Identity struct {
	// Name is Driver or Admin.
	Name string `json:"name"`
	// From is the origin of its kubeconfig.
	From string `json:"from"`
	// Server is the API server in the kubeconfig. The same server may have several names.
	Server string `json:"server,omitempty"`
	// User is its user name in the provider cluster; empty if the server does not return it.
	User string `json:"user,omitempty"`
}

const (
	// Driver is the identity whose permissions are checked, and which creates machines.
	Driver = "driver"
	// Admin is the identity that reads objects which the driver does not need to see.
	Admin = "admin"
)

// Credentials is a kubeconfig and its origin.
type Credentials struct {
	// Kubeconfig is untrusted.
	Kubeconfig []byte
	// From is the origin of the kubeconfig.
	From string
}

// Class is a MachineClass whose machines are to run on the provider cluster.
type Class struct {
	Name string
	// Machine is a sample machine of the class. No machine of that name may exist, and the provider
	// cluster must accept its user data.
	Machine *spi.CreateMachineInput
	// Wanted is the number of additional machines that the class needs.
	Wanted int
}

// Input specifies the scope of the checks. At least one of the credentials is required.
type Input struct {
	// Driver holds the driver's own credentials. Without them, Admin stands in for the driver.
	Driver *Credentials
	// Admin holds credentials with more permissions than the
	// driver's. Without them, the driver's are used.
	Admin   *Credentials
	Classes []Class
	// Evacuation reports whether the driver runs with --evacuation.
	Evacuation bool
	// Now is the current time.
	Now time.Time
}

const (
	// requestTimeout bounds one request, and dryRunTimeout one that
	// webhooks take part in: each may take 10 s.
	requestTimeout, dryRunTimeout = 10 * time.Second, 30 * time.Second
	// runTimeout bounds all requests together, however slowly the provider cluster responds to each.
	runTimeout = 2 * time.Minute
	// parallel is the maximum number of concurrent checks.
	parallel = 8
	// requestsPerSecond and burst limit the requests to the provider cluster.
	requestsPerSecond, burst = 100, 200
	// maxObjects bounds lists of kinds that have few objects, and maxObjectMemory their memory, in bytes.
	maxObjects, maxObjectMemory = 500, 32 << 20
)

// Run makes all checks and returns their results in a stable order: first those for all classes,
// then class by class. An error in one check becomes a result and does not stop the others. Run
// stops early only if the provider cluster cannot be reached or rejects the credentials.
func Run(ctx context.Context, in *Input) *Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()

	c, results := newChecker(ctx, in)
	if c.viewer == nil {
		return &Report{Identities: c.identities, Results: results}
	}

	results = append(results, concurrently(ctx, c.checks())...)

	return &Report{
		Server:     statustext.Printable(c.viewer.Server),
		Namespace:  c.namespace,
		Identities: c.identities,
		Results:    deduplicated(results),
	}
}

// check is an independent part of the work.
type check func(context.Context) []Result

// checks returns all checks, in the order of their results.
func (c *checker) checks() []check {
	all := []check{c.checkNamespace, c.checkKubeVirt, c.checkCDI, c.checkPermissions, c.checkQuota}

	for _, class := range c.classes {
		all = append(all, class.checkStorage, class.checkSourceClasses, class.checkSources, class.checkClonePermission, class.checkZone,
			class.checkNetworks, class.checkInstancetype, class.checkPreference, class.checkDryRun)
	}

	if len(c.classes) > 0 {
		all = append(all, c.checkUnusedImages, c.checkLeftovers)
	}

	return all
}

// concurrently runs checks concurrently, and returns their results in the order of the checks.
func concurrently(ctx context.Context, checks []check) []Result {
	var running errgroup.Group

	running.SetLimit(parallel)

	results := make([][]Result, len(checks))

	for i, c := range checks {
		running.Go(func() error {
			results[i] = c(ctx)

			return nil
		})
	}

	_ = running.Wait() // An error in a check is a result.

	return slices.Concat(results...)
}

// listFew lists the objects of a kind that has few of them, up to maxObjects.
func listFew[O any, L runtime.Object](ctx context.Context, from providerapi.Lister[L]) ([]O, error) {
	return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) ([]O, error) {
		return providerapi.Some[O](ctx, from, providerapi.List{MaxKept: maxObjectMemory}, maxObjects)
	})
}

// get reads one object.
func get[T any](ctx context.Context, read func(context.Context, string, metav1.GetOptions) (T, error), name string) (T, error) {
	return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) (T, error) {
		return read(ctx, name, metav1.GetOptions{})
	})
}

// review creates a review, which the API server answers and does not persist.
func review[T any](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), question T) (T, error) {
	return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) (T, error) {
		return create(ctx, question, metav1.CreateOptions{})
	})
}

// dryRun makes the server validate an object as strictly as the driver's requests do, without
// persisting it.
func dryRun[T any](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), object T) (T, error) {
	return providerapi.Once(ctx, dryRunTimeout, func(ctx context.Context) (T, error) {
		return create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	})
}
