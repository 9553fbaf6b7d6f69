package plan

import (
	"cmp"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// An API server makes a name from at most maxGenerateName characters of metadata.generateName and five random ones
// (https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/storage/names/generate.go).
const (
	maxGenerateName = 58
	generated       = "xxxxx"
)

// AsCreated completes a manifest as kubectl create and the API server do: with a namespace, if it has none, and with a name in place of
// metadata.generateName. The five characters that will be random are x here.
func AsCreated(g *v1alpha1.VmGroup, namespace string) {
	g.Namespace = cmp.Or(g.Namespace, namespace)
	if g.Name == "" && g.GenerateName != "" {
		g.Name = g.GenerateName[:min(len(g.GenerateName), maxGenerateName)] + generated
	}
}
