package planner

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestNeedsSayWhatAMemberIsMadeOf(t *testing.T) {
	t.Parallel()
	three := int32(3)
	g := &v1alpha1.VmGroup{}
	g.Name = "web"
	g.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Replicas: &three, Standby: 1, RootDisk: &v1alpha1.RootDisk{SizeGiB: 40},
		Disks:     []v1alpha1.Disk{{Name: "data", SizeGiB: 100, Persistent: true, Datastore: "ssd"}, {Name: "log", SizeGiB: 5}},
		Placement: v1alpha1.Placement{Zones: []string{"C0", "C1"}, Datastore: "vsan"},
		Networks: []v1alpha1.Network{
			{Network: "front", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24}}, {Network: "back"}, {Network: "mirror", DHCP: new(false)},
		}}
	want := []plan.NeedsPart{
		{Part: "template", Is: "ubuntu"}, {Part: "root disk", Is: "40 GiB"}, {Part: "disk data", Is: "100 GiB, persistent, datastore ssd"}, {Part: "disk log", Is: "5 GiB"},
		{Part: "network front", Is: "10.0.0.10 for web-0 to 10.0.0.13 for web-3"}, {Part: "network back", Is: "DHCP"}, {Part: "network mirror", Is: "no address"},
		{Part: "zones", Is: "C0 (2 members), C1 (2 members)"}, {Part: "placement", Is: "datastore vsan"},
	}
	if got := NeedsOf(g); !slices.Equal(got.Parts, want) || got.DisksGiB != 105 || got.Extra != 0 {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
