// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// gardenerObject contains the fields that Shoots and the resources of extensions have in common
// (github.com/gardener/gardener, pkg/apis/extensions/v1alpha1/types_defaults.go and
// pkg/apis/core/v1beta1).
type gardenerObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status gardenerStatus `json:"status"`
}

type gardenerStatus struct {
	LastOperation *gardenerOperation `json:"lastOperation"`
	// LastError is that of an extension's resource, and LastErrors are those of a Shoot.
	LastError  *gardenerError      `json:"lastError"`
	LastErrors []gardenerError     `json:"lastErrors"`
	Conditions []gardenerCondition `json:"conditions"`

	// The fields of Shoots.
	Constraints []gardenerCondition `json:"constraints"`
	TechnicalID string              `json:"technicalID"`
	Seed        string              `json:"seedName"`
	Hibernated  bool                `json:"hibernated"`
	Credentials struct {
		Rotation map[string]struct {
			Phase string `json:"phase"`
		} `json:"rotation"`
	} `json:"credentials"`
}

type gardenerOperation struct {
	Type           string      `json:"type"`
	State          string      `json:"state"`
	Description    string      `json:"description"`
	Progress       int         `json:"progress"`
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

type gardenerError struct {
	Description    string       `json:"description"`
	Codes          []string     `json:"codes"`
	LastUpdateTime *metav1.Time `json:"lastUpdateTime"`
}

type gardenerCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	Codes              []string    `json:"codes"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

const (
	operationAnnotation = "gardener.cloud/operation"
	timestampAnnotation = "gardener.cloud/timestamp"
	// operationWaits is the operation of a resource to which gardenlet has yet to copy its state.
	operationWaits = "wait-for-state"
	// operationTimeout is how long an extension may take to begin an operation.
	operationTimeout = time.Minute

	stateSucceeded = "Succeeded"
	stateFailed    = "Failed"
)

// Reasons of causes that only diagnose --shoot reports. docs/troubleshooting.md has a row for each.
const (
	reasonShootFailed          = "ShootFailed"
	reasonInfrastructureFailed = "InfrastructureFailed"
	reasonControlPlaneFailed   = "ControlPlaneFailed"
	reasonWorkerFailed         = "WorkerFailed"
	reasonOperationPending     = "OperationPending"
	reasonConditionFalse       = "ConditionFalse"
	reasonNotScheduled         = "ShootNotScheduled"
	reasonMachinesFailed       = "MachinesFailed"
)

// ShootReasons are the reasons in the order of the page.
var ShootReasons = []string{
	reasonNotScheduled, reasonShootFailed, reasonInfrastructureFailed, reasonControlPlaneFailed, reasonWorkerFailed, reasonOperationPending,
	reasonMachinesFailed, reasonConditionFalse,
}

// Link is one object between a Shoot and its machines.
type Link struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// State is what the object reports, in a few words.
	State string `json:"state"`
	// Updated is when the object was last updated.
	Updated *time.Time `json:"updated,omitempty"`
}

// path names the object in messages.
func (o *gardenerObject) path() string {
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// link returns the object as a link, with its pending operation.
func (o *gardenerObject) link() Link {
	l := Link{Kind: o.Kind, Name: o.Name, State: "the extension has not reconciled it"}

	if op := o.Status.LastOperation; op != nil {
		l.State = fmt.Sprintf("%s %s", op.Type, op.State)
		if op.State != stateSucceeded {
			l.State += fmt.Sprintf(" (%d %%): %s", op.Progress, op.Description)
		}

		l.Updated = timeOrNil(op.LastUpdateTime.Time)
	}

	if operation := o.Annotations[operationAnnotation]; operation != "" {
		l.State += "; annotated with operation " + operation
	}

	return l
}

// failure returns the object's error as a cause; nil if it has none.
func (o *gardenerObject) failure() *ShootCause {
	var (
		op   = o.Status.LastOperation
		errs = o.Status.LastErrors
	)

	if o.Status.LastError != nil {
		errs = append(errs, *o.Status.LastError)
	}

	if op != nil && op.State == stateSucceeded {
		return nil
	}

	if op != nil && len(errs) == 0 && slices.Contains([]string{"Error", stateFailed, "Aborted"}, op.State) {
		errs = append(errs, gardenerError{Description: op.Description, LastUpdateTime: &op.LastUpdateTime})
	}

	if len(errs) == 0 {
		return nil
	}

	c := o.causeOf(errs)
	c.failed = op != nil && op.State == stateFailed

	return c
}

// causeOf returns errors of the object as one cause.
func (o *gardenerObject) causeOf(errs []gardenerError) *ShootCause {
	c := &ShootCause{
		Link: o.path(),
		Cause: Cause{
			Reason: o.Kind + stateFailed,
			Remedy: "repair what the message names; the page below has the remedy for each code",
		},
	}

	var texts []string

	for _, e := range errs {
		texts = append(texts, e.Description)
		c.Codes = append(c.Codes, e.Codes...)

		if e.LastUpdateTime != nil {
			c.Since = timeOrNil(e.LastUpdateTime.Time)
		}
	}

	slices.Sort(c.Codes)
	c.Codes = slices.Compact(c.Codes)
	c.Message = strings.Join(texts, "; ")

	if len(c.Codes) == 0 {
		c.Remedy = "repair what the message names; if it names nothing, read the log of the component that reconciles the " + o.Kind
	}

	return c
}

// pending returns the cause for an operation that the extension or gardenlet has not begun; nil if
// there is none, or if it was just requested.
func (o *gardenerObject) pending(now time.Time) *ShootCause {
	operation := o.Annotations[operationAnnotation]
	since, err := time.Parse(time.RFC3339, o.Annotations[timestampAnnotation])

	if operation == "" || operation == operationWaits || err != nil || now.Sub(since) < operationTimeout {
		return nil
	}

	return &ShootCause{
		Link: o.path(),
		Cause: Cause{
			Reason:  reasonOperationPending,
			Since:   &since,
			Message: fmt.Sprintf("the extension has not begun operation %s, which gardenlet requested %s ago", operation, duration.HumanDuration(now.Sub(since))),
			Remedy:  "check that Deployment gardener-extension-provider-kubevirt of the seed runs, that it renews its Lease gardener-extension-heartbeat, and its log",
		},
	}
}

// unhealthy returns the conditions that are not true as causes.
func (o *gardenerObject) unhealthy() []*ShootCause {
	var causes []*ShootCause

	for _, c := range slices.Concat(o.Status.Conditions, o.Status.Constraints) {
		if c.Status != "False" && c.Status != "Unknown" {
			continue
		}

		causes = append(causes, &ShootCause{
			Link:  o.path(),
			Codes: c.Codes,
			Cause: Cause{
				Reason:  reasonConditionFalse,
				Since:   timeOrNil(c.LastTransitionTime.Time),
				Message: fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message),
				Remedy:  "repair what the message names; Gardener checks again within a minute",
			},
		})
	}

	return causes
}

// addShoot adds the Shoot in the garden.
func (d *Shoot) addShoot(shoot *gardenerObject) {
	l := shoot.link()
	l.Name = d.project + "/" + d.name

	if shoot.Status.Hibernated {
		l.State += "; hibernated"
	}

	for name, rotation := range shoot.Status.Credentials.Rotation {
		if rotation.Phase != "" && rotation.Phase != "Completed" {
			d.Rotations = append(d.Rotations, name+": "+rotation.Phase)
		}
	}

	slices.Sort(d.Rotations)

	d.Links = append(d.Links, l)
	d.SeedName = shoot.Status.Seed
	d.Namespace = shoot.Status.TechnicalID
	d.add(rankShootCondition, shoot.unhealthy()...)

	if shoot.Status.TechnicalID == "" {
		d.add(rankShoot, &ShootCause{
			Link: shoot.path(),
			Cause: Cause{
				Reason:  reasonNotScheduled,
				Message: "the Shoot has no seed yet: " + l.State,
				Remedy:  "check the events of the Shoot: kubectl --namespace=" + d.project + " describe shoot " + d.name,
				Since:   timeOrNil(shoot.CreationTimestamp.Time),
			},
		})
	} else if cause := shoot.failure(); cause != nil {
		d.add(rankShoot, cause)
	}
}

// addExtension adds a resource of an extension.
func (d *Shoot) addExtension(object *gardenerObject) {
	d.Links = append(d.Links, object.link())
	d.add(rankCondition, object.unhealthy()...)

	of := rankBeforeMachines
	if object.Kind == kindWorker {
		of = rankWorker
	}

	for _, cause := range []*ShootCause{object.pending(time.Now()), object.failure()} {
		if cause != nil {
			d.add(of, cause)
		}
	}
}

// addDeployment adds a MachineDeployment.
func (d *Shoot) addDeployment(deployment *v1alpha1.MachineDeployment) {
	state := fmt.Sprintf("%d of %d available", deployment.Status.AvailableReplicas, deployment.Spec.Replicas)
	if failed := len(deployment.Status.FailedMachines); failed > 0 {
		state += fmt.Sprintf(", %d failed", failed)
	}

	d.Links = append(d.Links, Link{Kind: "MachineDeployment", Name: deployment.Name, State: state})

	var texts []string
	for _, failed := range deployment.Status.FailedMachines {
		texts = append(texts, failed.Name+": "+failed.LastOperation.Description)
	}

	for _, c := range deployment.Status.Conditions {
		if c.Type == v1alpha1.MachineDeploymentFrozen && string(c.Status) == "True" {
			texts = append(texts, "frozen: "+c.Message)
		}
	}

	if len(texts) == 0 {
		return
	}

	d.add(rankDeployment, &ShootCause{
		Link: "MachineDeployment " + d.Namespace + "/" + deployment.Name,
		Cause: Cause{
			Reason:  reasonMachinesFailed,
			Message: strings.Join(texts, "; "),
			Remedy:  "repair what the message names; if a frozen MachineDeployment has more Machines than intended, machine-controller-manager resumes when they are gone",
		},
	})
}
