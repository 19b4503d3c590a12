package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// recording holds, in files, all output of the driver during the tests: its logs and results
// in this process, the sidecars' metrics, and the user-visible objects. The sidecars' logs
// are in the lab's folder.
type recording struct {
	dir  string
	log  *lockedFile // of the driver in this process, at the highest verbosity
	said *lockedFile // results of its methods
	seen *lockedFile // objects

	requests *requestLog

	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	errors   int
	machines map[bool]int // number created, by whether their user data held the canary
	objects  map[string]int
	scrapes  int
}

// everything is the highest verbosity at which client-go logs more than at the next lower one.
const everything = 10

// scrapeEvery is short enough to scrape each sidecar, and long enough to use little CPU time.
const scrapeEvery = 5 * time.Second

// record starts to record all drivers, sidecars and clusters. finish ends the recording.
func record(ctx context.Context, dir string) (*recording, error) {
	r := &recording{dir: dir, requests: newRequestLog(), machines: map[bool]int{}, objects: map[string]int{}}

	var failed error
	for name, file := range map[string]**lockedFile{"driver": &r.log, "results": &r.said, "objects": &r.seen} {
		opened, err := os.Create(filepath.Join(dir, "recorded-"+name+".log"))
		*file, failed = &lockedFile{file: opened}, errors.Join(failed, err)
	}

	ctx, r.stop = context.WithCancel(ctx)
	failed = errors.Join(failed, logToFile(filepath.Join(dir, "recorded-klog.log")))

	if err := errors.Join(failed, r.follow(ctx, lab.Control.Config(), controlObjects), r.follow(ctx, lab.Provider.Config(), providerObjects)); err != nil {
		return nil, err
	}

	r.done.Go(func() { wait.UntilWithContext(ctx, r.scrapeAll, scrapeEvery) })

	return r, nil
}

// logToFile raises klog's verbosity for the driver: at 6 and above its clients may log
// requests. The logging of a request depends on its own logger, so the tests' other clients,
// which create Secrets, log nothing.
func logToFile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}

	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)

	for name, value := range map[string]string{
		"v": "6", "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true",
	} {
		err = errors.Join(err, flags.Set(name, value))
	}

	klog.SetOutput(&lockedFile{file: file})

	return err
}

var (
	machineObjects = schema.GroupVersion{Group: "machine.sapcloud.io", Version: "v1alpha1"}
	events         = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	controlObjects = []schema.GroupVersionResource{
		events, machineObjects.WithResource("machines"), machineObjects.WithResource("machinesets"), machineObjects.WithResource("machinedeployments"),
	}
	providerObjects = []schema.GroupVersionResource{
		events, {Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"},
	}
)

// follow records every state of the objects of some types.
func (r *recording) follow(ctx context.Context, config *rest.Config, types []schema.GroupVersionResource) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}

	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)

	for _, resource := range types {
		write := func(object any) { r.object(resource.Resource, object) }

		if _, err := informers.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: write, UpdateFunc: func(_, now any) { write(now) },
		}); err != nil {
			return err
		}
	}

	informers.Start(ctx.Done())

	for resource, synced := range informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("follow %s: %w", resource.Resource, ctx.Err())
		}
	}

	r.done.Go(informers.Shutdown)

	return nil
}

func (r *recording) object(resource string, object any) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}

	line, err := json.Marshal(o)
	if err != nil {
		line = []byte(err.Error())
	}

	r.mu.Lock()
	r.objects[resource]++
	r.mu.Unlock()
	r.seen.line(string(line))
}

// scrapeAll keeps the latest metrics of each running sidecar and each driver over gRPC.
func (r *recording) scrapeAll(ctx context.Context) {
	for _, p := range lab.Processes() {
		port := portOf(p.PID())
		if p.Err() != nil || port == "" || !strings.HasSuffix(p.Name(), "-machine-controller") && !strings.HasSuffix(p.Name(), "-driver") {
			continue
		}

		if metrics, err := scrape(ctx, port); err == nil {
			r.mu.Lock()
			r.scrapes++
			r.mu.Unlock()

			_ = os.WriteFile(filepath.Join(r.dir, "recorded-metrics-"+filepath.Base(p.LogFile())), metrics, 0o600) // On failure the next scrape follows.
		}
	}
}

// portOf returns the port of a running controller, or "" if it has none or has exited.
func portOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // It may just have exited.

	for arg := range bytes.SplitSeq(line, []byte{0}) {
		if port, ok := strings.CutPrefix(string(arg), "--port="); ok {
			return port
		}

		if port, ok := strings.CutPrefix(string(arg), "--metrics-address=127.0.0.1:"); ok {
			return port
		}
	}

	return ""
}

func scrape(ctx context.Context, port string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}

	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // Fully read.

	return io.ReadAll(resp.Body)
}

// finish ends the recording, and searches it for secrets.
func (r *recording) finish() (*search, error) {
	r.stop()
	r.done.Wait()
	klog.Flush()

	s := newSearch(canaries())

	for _, pattern := range []string{
		filepath.Join(r.dir, "recorded-*.log"), filepath.Join(lab.LogDir, "*-machine-controller*.log"),
		filepath.Join(lab.LogDir, "*-driver*.log"),
	} {
		if err := s.in(pattern); err != nil {
			return nil, fmt.Errorf("search for secrets: %w", err)
		}
	}

	return s, nil
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return fmt.Sprintf("recorded: %d errors of the driver, %d scrapes of sidecars, states of %v; %d machines' user data held the canary, %d did not",
		r.errors, r.scrapes, r.objects, r.machines[true], r.machines[false])
}

// lockedFile is a file for concurrent writers.
type lockedFile struct {
	mu   sync.Mutex
	file *os.File
}

// Write implements io.Writer.
func (f *lockedFile) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.file.Write(text)
}

func (f *lockedFile) line(text string) {
	_, _ = io.WriteString(f, text+"\n") // The search reports how much was written.
}

// recorded is a driver with recorded calls.
type recorded struct {
	driver.Driver

	to *recording
}

func (r *recording) driver(d driver.Driver) driver.Driver { return &recorded{Driver: d, to: r} }

// begin adds a logger with the highest verbosity to a call's context, and the
// method's name for its requests.
func (r *recording) begin(ctx context.Context, method string) context.Context {
	return klog.NewContext(withMethod(ctx, method), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(everything), textlogger.Output(r.log))))
}

// end records the result of a call. machine-controller-manager logs both response and error, and
// stores them in the status.
func (r *recording) end(method string, answer any, err error) {
	if err != nil {
		r.mu.Lock()
		r.errors++
		r.mu.Unlock()
	}

	r.said.line(fmt.Sprintf("%s: %+v %v", method, answer, err))
}

// CreateMachine implements driver.Driver.
func (d *recorded) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	if req.Secret != nil {
		d.to.mu.Lock()
		d.to.machines[bytes.Contains(req.Secret.Data["userData"], []byte(userDataCanary))]++
		d.to.mu.Unlock()
	}

	resp, err := d.Driver.CreateMachine(d.to.begin(ctx, "CreateMachine"), req)
	d.to.end("CreateMachine", resp, err)

	return resp, err
}

// InitializeMachine implements driver.Driver.
func (d *recorded) InitializeMachine(ctx context.Context, req *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	resp, err := d.Driver.InitializeMachine(d.to.begin(ctx, "InitializeMachine"), req)
	d.to.end("InitializeMachine", resp, err)

	return resp, err
}

// DeleteMachine implements driver.Driver.
func (d *recorded) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	resp, err := d.Driver.DeleteMachine(d.to.begin(ctx, "DeleteMachine"), req)
	d.to.end("DeleteMachine", resp, err)

	return resp, err
}

// GetMachineStatus implements driver.Driver.
func (d *recorded) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	resp, err := d.Driver.GetMachineStatus(d.to.begin(ctx, "GetMachineStatus"), req)
	d.to.end("GetMachineStatus", resp, err)

	return resp, err
}

// ListMachines implements driver.Driver.
func (d *recorded) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	resp, err := d.Driver.ListMachines(d.to.begin(ctx, "ListMachines"), req)
	d.to.end("ListMachines", resp, err)

	return resp, err
}

// GetVolumeIDs implements driver.Driver.
func (d *recorded) GetVolumeIDs(ctx context.Context, req *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	resp, err := d.Driver.GetVolumeIDs(d.to.begin(ctx, "GetVolumeIDs"), req)
	d.to.end("GetVolumeIDs", resp, err)

	return resp, err
}
