// Package v1alpha1 is the public contract of VmGroup: the Kubernetes types that a user applies and reads.
//
// It is a leaf: it knows apimachinery and nothing else of this project. The CRD in manifests/ and the
// deep-copy functions are generated from it (make generate), so a bound that stands here stands in the API
// server too; Validate checks the same bounds once more in the hook, for specs that slipped past a schema.
//
// +kubebuilder:object:generate=true
// +groupName=vm.codeconnect.vmworld.com
package v1alpha1
