// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// decode returns objects from kubectl's JSON output.
func decode(t *testing.T, objects ...string) []object {
	t.Helper()
	all := make([]object, len(objects))
	for i, text := range objects {
		require.NoError(t, json.Unmarshal([]byte(text), &all[i]), text)
	}
	return all
}

// oneWorker returns a snapshot in which machine "one" runs and "two" cannot be scheduled.
func oneWorker(t *testing.T) snapshot {
	t.Helper()
	return newSnapshot(decode(t,
		`{"kind": "MachineClass", "metadata": {"name": "z1"}, "providerSpec": {"zone": "zone-a"}}`,
		`{"kind": "Machine", "metadata": {"name": "one", "creationTimestamp": "2026-01-01T11:58:55Z", "labels": {"node": "node-one"}},
		  "spec": {"class": {"name": "z1"}}, "status": {"currentStatus": {"phase": "Running"}}}`,
		`{"kind": "Machine", "metadata": {"name": "two", "creationTimestamp": "2026-01-01T11:59:55Z"}, "spec": {"class": {"name": "zx"}},
		  "status": {"lastOperation": {"errorCode": "ResourceExhausted", "description": "Failed: message = [no\nnodes]. Initialize"}}}`,
		`{"kind": "Node", "metadata": {"name": "node-one"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
	), decode(t,
		`{"kind": "VirtualMachine", "metadata": {"name": "one"}, "status": {"printableStatus": "Running"}}`,
		`{"kind": "VirtualMachine", "metadata": {"name": "two"}, "status": {"printableStatus": "ErrorUnschedulable"}}`,
		`{"kind": "VirtualMachineInstance", "metadata": {"name": "one"}, "status": {"nodeName": "host"}}`,
		`{"kind": "Node", "metadata": {"name": "host", "labels": {"topology.kubernetes.io/zone": "zone-a"}}}`,
	))
}

func TestTable(t *testing.T) {
	t.Parallel()
	rows := oneWorker(t).rows()
	require.Equal(t, ""+
		"  MACHINE   PHASE     VM                   PROVIDER NODE   ZONE     SHOOT NODE   AGE\n"+
		"  one       Running   Running              host            zone-a   Ready        1:05\n"+
		"  two       -         ErrorUnschedulable   -               -        -            0:05\n"+
		"  ! two: ResourceExhausted: no nodes", formatTable(rows, noon))
	require.Equal(t, formatTable(rows, time.Time{}), formatTable(oneWorker(t).rows(), time.Time{}), "no age, no change")
	require.NotContains(t, formatTable(rows, time.Time{}), "0:05")
	require.Equal(t, "  (no machines)", formatTable(nil, noon))

	rows[0].vm = "DataVolumeError"
	require.Contains(t, formatTable(rows, noon), "\n  DataVolumeError is not a failure here: KubeVirt shows it until CDI can clone the golden image")
	rows[0].errorCode = "FailedPrecondition"
	require.NotContains(t, formatTable(rows, noon), "is not a failure", "it is one then")
}

func TestRowsShowAVMWithoutMachine(t *testing.T) {
	t.Parallel()
	s := oneWorker(t)
	delete(s.machines, "one")
	require.Contains(t, formatTable(s.rows(), noon), "one       -       Running              host            zone-a   -            \n")
	require.Contains(t, s.reached(workers{}), "2 coming or going")
}

func TestReached(t *testing.T) {
	t.Parallel()
	s := oneWorker(t)
	require.Equal(t, "1 coming or going", s.reached(workers{"z1": 1}), "one of class zx is not settled")
	require.Empty(t, s.without("zx").reached(workers{"z1": 1}))
	require.Equal(t, s, s.without(""))
	delete(s.machines, "two")
	delete(s.vms, "two")
	require.Empty(t, s.reached(workers{"z1": 1}))
	require.Empty(t, s.reached(workers{"z1": 1, "z2": 0}))
	require.Equal(t, "1 VMIs, 1 of z1 Running and Ready, 1 shoot nodes", s.reached(workers{"z1": 2}))
	require.Equal(t, "1 Running in all, 1 VMIs, 1 shoot nodes", s.reached(workers{}))
	require.Empty(t, snapshot{}.reached(workers{}))
}

func TestWorkersAreNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "no machine, VM or shoot node", workers{"z1": 0}.String())
	require.Contains(t, workers{"z2": 1, "z1": 2}.String(), "2 of z1 and 1 of z2, Running")
}

func TestUnschedulable(t *testing.T) {
	t.Parallel()
	s := oneWorker(t)
	require.Equal(t, "no machine of example-worker-zx", unschedulable(s))
	machine := s.machines["two"]
	machine.Spec.Class.Name = classZX
	s.machines["two"] = machine
	require.Empty(t, unschedulable(s))
	s.vms["two"] = object{}
	require.Equal(t, `VM -, error code "ResourceExhausted"`, unschedulable(s))
}

func TestSights(t *testing.T) {
	t.Parallel()
	seen := newSights()
	seen.note(noon, oneWorker(t))
	seen.note(noon.Add(time.Hour), oneWorker(t))
	median, longest := seen.readiness()
	require.Equal(t, 65*time.Second, median, "the first time counts")
	require.Equal(t, 65*time.Second, longest)
	require.Equal(t, 5*time.Second, seen.exhaust)
	require.Len(t, seen.machines, 2)
	require.Equal(t, map[string]bool{"host": true}, seen.hosts)
}

func TestInZone(t *testing.T) {
	t.Parallel()
	changed, err := inZone([]byte(`{"apiVersion": "v1", "kind": "List", "items": [
		{"kind": "MachineClass", "metadata": {"name": "z1", "uid": "1"}, "nodeTemplate": {"zone": "a"}, "providerSpec": {"zone": "a", "cpu": 2}},
		{"kind": "MachineDeployment", "metadata": {"name": "z1"}, "status": {}, "spec": {"replicas": 3, "selector": {"name": "z1"}}}
	]}`), "z1", "zx", "x")
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion": "v1", "kind": "List", "items": [
		{"kind": "MachineClass", "metadata": {"name": "zx"}, "nodeTemplate": {"zone": "x"}, "providerSpec": {"zone": "x", "cpu": 2}},
		{"kind": "MachineDeployment", "metadata": {"name": "zx"}, "spec": {"replicas": 1, "selector": {"name": "zx"}}}
	]}`, string(changed))
}

func TestReadOptions(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "yes": true} {
		o, err := readOptions(value, "", "")
		require.NoError(t, err)
		require.Equal(t, options{keep: want}, o, value)
	}
	o, err := readOptions("", "grpc", "")
	require.NoError(t, err)
	require.Equal(t, options{overGRPC: true}, o)
	_, err = readOptions("", "http", "")
	require.ErrorContains(t, err, "DRIVER=http")
	o, err = readOptions("", "", "real")
	require.NoError(t, err)
	require.Equal(t, options{realNodes: true}, o)
	_, err = readOptions("", "", "virtual")
	require.ErrorContains(t, err, "NODES=virtual")
}
