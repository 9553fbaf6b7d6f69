package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestEachSampleRunsOnTheEmbeddedVCenter(t *testing.T) {
	paths, err := filepath.Glob("../manifests/samples/vmgroup*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got the samples %v and the error %v", paths, err)
	}
	var data []metacontroller.Related
	for _, path := range []string{"../manifests/samples/user-data.yaml", "../manifests/samples/ignition.yaml"} {
		text, err := os.ReadFile(path)
		must.Succeed(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var o struct {
				Kind             string
				Metadata         metav1.ObjectMeta
				StringData, Data map[string]string
			}
			must.Succeed(t, yaml.Unmarshal([]byte(document), &o))
			data = append(data, metacontroller.Related{Kind: o.Kind, Name: o.Metadata.Name, Data: o.Data})
			if o.StringData != nil {
				data[len(data)-1].Data = o.StringData
			}
		}
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			inRig(t, vcsim.Config{Furnished: true, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
				text, err := os.ReadFile(path)
				r.must(err)
				var sample v1alpha1.VmGroup
				r.must(yaml.UnmarshalStrict(text, &sample))
				g := r.serve(func(v *vsphere.Config, _ *loop.Config) {
					v.AdoptFrom = []inventory.AdoptRule{{Namespace: "default", Folder: vcsim.LegacyFolder}}
					v.ExtraKeys, v.PCIDevices = []string{"disk.EnableUUID"}, []string{"*"}
				}).group(sample.Name, 1)
				g.Spec, g.Annotations, g.Related = sample.Spec, sample.Annotations, data
				until(t, g, "the sample runs", metacontroller.Running)
			})
		})
	}
}
