// Package v1alpha1 is the public contract of VmGroup: the Kubernetes types that a user applies and reads.
//
// It imports apimachinery, and no other package of this project. The CRD in manifests/ and the deep-copy functions are generated from it
// (make generate), so the API server enforces the bounds here; Validate checks the same bounds again in the hook, for specs that bypassed a
// schema.
//
// +kubebuilder:object:generate=true
// +groupName=vm.codeconnect.vmworld.com
package v1alpha1
