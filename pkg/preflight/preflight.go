// Package preflight asks a provider cluster whether it can run the machines of MachineClasses, before there is one: who the driver is
// there and what it may do, what is installed, whether all that a class refers to is there and large enough, and what the API server
// and KubeVirt make of the objects that the driver would create. mcm-kubevirt preflight prints what it finds. It changes nothing: all
// requests are reads, reviews of rights, and creations as a dry run. It must not know machine-controller-manager, nor a control
// cluster.
package preflight

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Level says how bad a result is.
type Level string

const (
	// OK is what is as it has to be.
	OK Level = "ok"
	// Warning is what may be meant, what makes some machines slower or fewer, and what could not be looked at.
	Warning Level = "warning"
	// Error is what keeps machines from being created, or from running.
	Error Level = "error"
)

// Result is what one check has found about one thing.
type Result struct {
	// Class is the MachineClass that it is about; empty for what concerns several.
	Class string `json:"class,omitempty"`
	// Classes are those that it is about if it is the same for several; empty for what concerns the whole cluster.
	Classes []string `json:"classes,omitempty"`
	// Check is the name of one of Checks.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Subject is what was checked: usually a kind and a name.
	Subject string `json:"subject"`
	// Message says what was seen.
	Message string `json:"message"`
	// Remedy is the command or the field that changes it. It is there unless the level is OK. What a stranger named is quoted in it.
	Remedy string `json:"remedy,omitempty"`
	// Identity is the name of the one of the report's identities that looked; empty if nobody had to.
	Identity string `json:"identity,omitempty"`

	// lacking is what the result says that quotas have too little of.
	lacking []lack
}

// Report is about one provider cluster and namespace.
type Report struct {
	// Server is the host, and the port if one is given, of the API server; empty if no kubeconfig can be read.
	Server string `json:"server"`
	// Namespace is where the machines live.
	Namespace  string     `json:"namespace"`
	Identities []Identity `json:"identities"`
	Results    []Result   `json:"results"`
}

// Identity is one in whose name the provider cluster was asked.
type Identity struct {
	// Name is Driver or Admin.
	Name string `json:"name"`
	// From is where its kubeconfig is from.
	From string `json:"from"`
	// Server is where that leads to. The same server may have several names.
	Server string `json:"server,omitempty"`
	// User is who that is to the provider cluster; empty if it does not say.
	User string `json:"user,omitempty"`
}

const (
	// Driver is the identity whose rights are checked, and in whose name machines are created.
	Driver = "driver"
	// Admin is the identity of whoever looks at what the driver need not see.
	Admin = "admin"
)

// Credentials are a kubeconfig.
type Credentials struct {
	// Kubeconfig is untrusted.
	Kubeconfig []byte
	// From says where it is from.
	From string
}

// Class is a MachineClass whose machines are to run on the provider cluster.
type Class struct {
	Name string
	// Machine is one of its machines. No machine of that name may exist, nor may the provider cluster mind its user data.
	Machine *spi.CreateMachineInput
	// Wanted is how many more machines the class is to have.
	Wanted int
}

// Input says what is to be checked. At least one of the credentials is required.
type Input struct {
	// Driver are the driver's own credentials. Without them, whoever Admin is stands for the driver.
	Driver *Credentials
	// Admin are credentials that may see more than the driver's. Without them the driver's are used.
	Admin   *Credentials
	Classes []Class
	// Evacuation says that the driver runs with --evacuation.
	Evacuation bool
	// Now is the time.
	Now time.Time
}

const (
	// requestTimeout bounds one request, and dryRunTimeout one that webhooks take part in: each may take 10 s.
	requestTimeout, dryRunTimeout = 10 * time.Second, 30 * time.Second
	// runTimeout bounds all of them, however slowly the provider cluster answers each.
	runTimeout = 2 * time.Minute
	// parallel is how many checks run at a time.
	parallel = 8
)

// NewClients returns what Run needs to reach provider clusters.
func NewClients() *providerapi.Cache {
	const perSecond, burst = 100, 200

	return providerapi.NewCache(providerapi.Options{QPS: perSecond, Burst: burst})
}

// Run makes all checks. Their results come in a stable order: what concerns all classes first, then class by class. What goes wrong in
// one check is a result of it and does not keep the others; only a provider cluster that cannot be reached, or refuses the
// credentials, ends the matter.
func Run(ctx context.Context, clients *providerapi.Cache, in *Input) *Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()

	s, results := enter(ctx, clients, in)
	report := &Report{Identities: s.identities(), Results: results}

	if s.looker == nil {
		return report
	}

	report.Server, report.Namespace = statustext.Printable(s.looker.clients.Server), s.namespace
	report.Results = merged(s.namespace, append(report.Results, together(ctx, s.checks())...))

	return report
}

// check is a part of the work that stands for itself.
type check func(context.Context) []Result

// checks returns all of them, in the order of their results.
func (s *site) checks() []check {
	all := []check{s.checkNamespace, s.checkKubeVirt, s.checkCDI, s.checkPermissions, s.checkSum}

	for i := range s.classes {
		c := &s.classes[i]
		all = append(all, c.checkStorage, c.checkSources, c.checkClonePermission, c.checkZone, c.checkCapacity, c.checkNetworks,
			c.checkInstancetype, c.checkPreference, c.checkQuota, c.checkLimitRanges, c.checkDryRun)
	}

	return all
}

// together runs checks at the same time, and returns their results in the order of the checks.
func together(ctx context.Context, checks []check) []Result {
	var (
		running sync.WaitGroup
		places  = make(chan struct{}, parallel)
		results = make([][]Result, len(checks))
	)

	for i, c := range checks {
		places <- struct{}{}

		running.Go(func() {
			defer func() { <-places }()

			results[i] = c(ctx)
		})
	}

	running.Wait()

	var all []Result
	for _, some := range results {
		all = append(all, some...)
	}

	return all
}

// some returns the objects of a kind of which there are few, at most so many.
func some[O any, L runtime.Object](ctx context.Context, from providerapi.Lister[L], most int64) ([]O, error) {
	return ask(ctx, func(ctx context.Context) ([]O, error) {
		return providerapi.Some[O](ctx, from, providerapi.List{}, most)
	})
}

// ask sends one request, in its time.
func ask[T any](ctx context.Context, send func(context.Context) (T, error)) (T, error) {
	return within(ctx, requestTimeout, send)
}

func within[T any](ctx context.Context, timeout time.Duration, send func(context.Context) (T, error)) (T, error) {
	return providerapi.Once(ctx, timeout, send)
}
