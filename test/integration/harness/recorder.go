// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
)

// recording holds, in files of the lab's folder for logs, all output of the driver in this process:
// its logs and results, and the metrics of the sidecars that this process started. The sidecars'
// logs are in the same folder, and the suite records the user-visible objects.
type recording struct {
	dir  string
	name string      // of the topic package, and part of the files' names
	log  *lockedFile // of the driver in this process, at the highest verbosity
	said *lockedFile // results of its methods

	requests *requestLog

	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	errors   int
	machines map[bool]int // number created, by whether their user data held the canary
	scrapes  int
}

// everything is the highest verbosity at which client-go logs more than at the next lower one.
const everything = 10

// ScrapeEvery is short enough to scrape each sidecar, and long enough to use little CPU time. Benchmarks, whose sidecars
// have metrics of thousands of machines, set it before Main.
var ScrapeEvery = 5 * time.Second

// record starts to record all drivers and sidecars of this process. finish ends the recording.
func record(ctx context.Context, dir string) (*recording, error) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	r := &recording{dir: dir, name: name, requests: newRequestLog(), machines: map[bool]int{}}

	var failed error
	for kind, file := range map[string]**lockedFile{"driver": &r.log, "results": &r.said} {
		opened, err := os.Create(r.path(kind))
		*file, failed = &lockedFile{file: opened}, errors.Join(failed, err)
	}

	if err := errors.Join(failed, suite.LogToFile(r.path("klog"), clientVerbosity)); err != nil {
		return nil, fmt.Errorf("record the driver: %w", err)
	}

	ctx, r.stop = context.WithCancel(ctx)
	r.done.Go(func() { wait.UntilWithContext(ctx, r.scrapeAll, ScrapeEvery) })

	return r, nil
}

func (r *recording) path(kind string) string {
	return filepath.Join(r.dir, "recorded-"+r.name+"-"+kind+".log")
}

// clientVerbosity is the verbosity at which client-go may log requests. The logging of a request
// depends on its own logger, so the tests' other clients, which create Secrets, log nothing.
const clientVerbosity = 6

// scrapeAll keeps the latest metrics of each running sidecar and each driver over gRPC.
func (r *recording) scrapeAll(ctx context.Context) {
	for _, p := range lab.Processes() {
		port := PortOf(p.PID())
		if p.Err() != nil || port == "" || !strings.HasSuffix(p.Name(), "-machine-controller") && !strings.HasSuffix(p.Name(), "-driver") {
			continue
		}

		if metrics, err := Scrape(ctx, port); err == nil {
			r.mu.Lock()
			r.scrapes++
			r.mu.Unlock()

			_ = os.WriteFile(filepath.Join(r.dir, "recorded-metrics-"+filepath.Base(p.LogFile())), metrics, 0o600) // On failure the next scrape follows.
		}
	}
}

// finish ends the recording, and returns the record of this process.
func (r *recording) finish() (*suite.Record, error) {
	r.stop()
	r.done.Wait()
	klog.Flush()

	secrets, err := usedSecrets()
	if err != nil {
		return nil, err
	}

	report := &suite.Record{
		Package:       r.name,
		Run:           flag.Lookup("test.run").Value.String(),
		Skip:          flag.Lookup("test.skip").Value.String(),
		Denials:       expectedDenials(),
		Secrets:       secrets,
		Errors:        r.errors,
		Scrapes:       r.scrapes,
		WithCanary:    r.machines[true],
		WithoutCanary: r.machines[false],
	}
	r.requests.report(report)

	return report, nil
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
		d.to.machines[bytes.Contains(req.Secret.Data["userData"], []byte(suite.UserDataCanary))]++
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
