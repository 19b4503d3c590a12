// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// The package comment is a part of docs/api-reference.md. The controllers and the webhook import the
// package; it must not depend on a client.

// Package v1alpha1 is the configuration API of the extension: the provider-specific parts of a
// Shoot and of a CloudProfile, and the statuses that the extension writes. Fields of the
// archived extension keep their names and meaning.
//
// +kubebuilder:object:generate=true
// +groupName=kubevirt.provider.extensions.gardener.cloud
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the extension.
const GroupName = "kubevirt.provider.extensions.gardener.cloud"

// SchemeGroupVersion is the only version of the API group.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the types, so that controllers can write them into statuses.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&CloudProfileConfig{}, &InfrastructureConfig{}, &InfrastructureStatus{}, &InfrastructureState{}, &ControlPlaneConfig{}, &WorkerConfig{}, &WorkerStatus{},
		&WorkloadIdentityConfig{}, &BastionStatus{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)

	return nil
}

// TypeMeta returns the apiVersion and kind of a type of this package.
func TypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: SchemeGroupVersion.String(), Kind: kind}
}
