package plan

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

func TestChangesNameTheFieldAndBothValuesInTheSpecsUnits(t *testing.T) {
	t.Parallel()
	two, one := int32(2), int32(1)
	of := func(edit func(*v1alpha1.VmGroupSpec)) *v1alpha1.VmGroupSpec {
		s := &v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Disks: []v1alpha1.Disk{{Name: "data", SizeGiB: 10}, {Name: "log", SizeGiB: 5}},
			Networks: []v1alpha1.Network{{Network: "front", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.1-10.0.0.9"}}}}}
		if edit != nil {
			edit(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.VmGroupSpec)
		want []string
	}{
		"nothing":          {nil, nil},
		"memory":           {func(s *v1alpha1.VmGroupSpec) { s.Memory = 8 }, []string{"spec.memory: 8 GiB instead of 4 GiB"}},
		"template and cpu": {func(s *v1alpha1.VmGroupSpec) { s.Template, s.CPU = "ubuntu-26.04", 4 }, []string{"spec.cpu: 4 instead of 2", "spec.template: ubuntu-26.04 instead of ubuntu"}},
		"a disk":           {func(s *v1alpha1.VmGroupSpec) { s.Disks[1].SizeGiB = 7 }, []string{"spec.disks[log].sizeGiB: 7 instead of 5"}},
		"no disk":          {func(s *v1alpha1.VmGroupSpec) { s.Disks = s.Disks[:1] }, []string{"spec.disks[log].name: not set instead of log", "spec.disks[log].sizeGiB: not set instead of 5"}},
		"addresses": {func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.Ranges = []string{"10.0.0.1-10.0.0.99"} },
			[]string{`spec.networks[front].ipv4.ranges: ["10.0.0.1-10.0.0.99"] instead of ["10.0.0.1-10.0.0.9"]`}},
		"a default": {func(s *v1alpha1.VmGroupSpec) {
			s.Clone.Mode, s.Update.Resize, s.Disks[0].Provisioning, s.Replicas = v1alpha1.CloneFull, v1alpha1.ResizeAuto, v1alpha1.ProvisioningThin, &one
		}, nil},
		"replicas":                 {func(s *v1alpha1.VmGroupSpec) { s.Replicas = &two }, []string{"spec.replicas: 2 instead of not set"}},
		"two networks of one name": {func(s *v1alpha1.VmGroupSpec) { s.Networks = append(s.Networks, v1alpha1.Network{Network: "front"}) }, []string{"spec.networks[1].network: front instead of not set"}},
	} {
		var got []string
		for _, change := range Changes(of(nil), of(c.edit)) {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
