package driverrpc

import (
	"fmt"
	"path"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// TokenInvalid is the prefix of the error for a response that machine-controller-manager cannot
// handle. It trusts its drivers: it dereferences the response beside Uninitialized without a nil
// check, writes an empty provider ID to the Machine, and treats an unknown code as a permanent
// failure. docs/troubleshooting.md has a row for it.
const TokenInvalid = "DriverAnswerInvalid"

func invalid(fullMethod, what string) error {
	text := fmt.Sprintf("%s: %s was answered with %s; it is tried again: use a driver of the machine controller's version, "+
		"or look at the driver's log", TokenInvalid, path.Base(fullMethod), what)

	return status.Error(codes.Unavailable, statustext.Fit(text))
}

// requireCode returns an error for a machine code that no error can have.
func requireCode(fullMethod string, code uint32) error {
	switch {
	case codes.Code(code) == codes.OK:
		return invalid(fullMethod, "an error of machine code 0 (OK)")
	case codes.Code(code) > codes.Uninitialized:
		return invalid(fullMethod, fmt.Sprintf("an error of machine code %d, which does not exist", code))
	default:
		return nil
	}
}

// whole returns a response unchanged, unless it lacks a field that
// machine-controller-manager reads.
func whole[R any](fullMethod string, answer *R, err error, missing func(*R) string) (*R, error) {
	switch {
	case err == nil:
		if what := missing(answer); what != "" {
			return nil, invalid(fullMethod, "a success without "+what)
		}
	case fullMethod == driverv1.MachineDriver_GetMachineStatus_FullMethodName && codeOf(err) == codes.Uninitialized:
		if what := missing(answer); what != "" {
			return nil, invalid(fullMethod, "machine code 17 (Uninitialized) without "+what)
		}
	}

	return answer, err
}

func codeOf(err error) codes.Code {
	return readMachineStatus(err).Code()
}

func missingInCreated(r *driver.CreateMachineResponse) string {
	if r == nil {
		return noResponse
	}

	return missingIdentity(r.ProviderID, r.NodeName)
}

func missingInInitialized(r *driver.InitializeMachineResponse) string {
	if r == nil {
		return noResponse
	}

	return missingIdentity(r.ProviderID, r.NodeName)
}

func missingInStatus(r *driver.GetMachineStatusResponse) string {
	if r == nil {
		return noResponse
	}

	return missingIdentity(r.ProviderID, r.NodeName)
}

// missingInDeleted requires nothing: success alone means that the machine is gone.
func missingInDeleted(*driver.DeleteMachineResponse) string { return "" }

// missingInList checks a list by which machine-controller-manager may delete machines.
func missingInList(r *driver.ListMachinesResponse) string {
	if r == nil {
		return noResponse
	}

	for id, name := range r.MachineList {
		if what := missingIdentity(id, name); what != "" {
			return what + " of a listed machine"
		}
	}

	return ""
}

func missingInVolumeIDs(r *driver.GetVolumeIDsResponse) string {
	if r == nil {
		return noResponse
	}

	return ""
}

const noResponse = "a response"

func missingIdentity(providerID, nodeName string) string {
	var missing []string

	if providerID == "" {
		missing = append(missing, "a provider ID")
	}

	if nodeName == "" {
		missing = append(missing, "a node name")
	}

	return strings.Join(missing, " and ")
}
