package test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// disksOf lists the persistent disks: name, size in GiB, how many VMs wrote to the disk, and the VM that has the disk.
func (r *rig) disksOf() (all []string) {
	for _, d := range r.FirstClassDisks() {
		var who []string
		for _, w := range d.Written {
			if !slices.Contains(who, w.InstanceUUID) {
				who = append(who, w.InstanceUUID)
			}
		}
		has := "none"
		if len(d.VMs) > 0 {
			has = strings.TrimPrefix(strings.Join(d.VMs, ","), web+"/")
		}
		all = append(all, fmt.Sprintf("%s %d %d %s", d.Name, d.CapacityMB>>10, len(who), has))
	}
	return all
}

func (r *rig) disksAre(when string, want ...string) {
	r.t.Helper()
	if got := r.disksOf(); !slices.Equal(got, want) {
		r.t.Errorf("%s, the disks are %q, not %q", when, got, want)
	}
}

// Each next VM of an ordinal has the ordinal's disk, with the data that the last VM wrote.
func TestAPersistentDiskGoesFromOneVMOfItsOrdinalToTheNext(t *testing.T) {
	inRig(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Datastores: 2}, func(t *testing.T, r *rig) {
		var warnings bytes.Buffer
		g := r.serve(func(c *vsphere.Config, _ *loop.Config) {
			c.Datastore, c.Log = "LocalDS_0", zerolog.New(zerolog.SyncWriter(&warnings)).Level(zerolog.WarnLevel)
		}).group("web", 2)
		g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2, Persistent: true}}
		up(t, g)
		r.disksAre("at first", "default/web-0/data 2 1 web-0", "default/web-1/data 2 1 web-1")
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		up(t, g)
		r.disksAre("after a roll", "default/web-0/data 2 2 web-0", "default/web-1/data 2 2 web-1")
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks[0].SizeGiB = 3 })
		up(t, g)
		r.disksAre("grown", "default/web-0/data 3 2 web-0", "default/web-1/data 3 2 web-1")
		g.Scale(1)
		up(t, g)
		r.disksAre("scaled in", "default/web-0/data 3 2 web-0", "default/web-1/data 3 2 none")
		if d := g.Status.Disks; len(d) != 2 || d[1].State != v1alpha1.DiskDetached || d[1].Ordinal != 1 {
			t.Errorf("the status has %+v", d)
		}
		g.Scale(2)
		up(t, g)
		r.disksAre("scaled out", "default/web-0/data 3 2 web-0", "default/web-1/data 3 3 web-1")
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks[0].Retention.WhenScaled = v1alpha1.RetentionDelete })
		g.Scale(1)
		up(t, g)
		r.disksAre("scaled in permanently", "default/web-0/data 3 2 web-0")
		if d := g.Status.Disks; len(d) != 1 {
			t.Errorf("the status has %+v; want one", d)
		}
		remove(t, g)
		r.disksAre("when the group is gone", "default/web-0/data 3 2 none")
		if warnings.Len() > 0 {
			t.Errorf("a change that the spec asks for is logged as a warning: %s", &warnings)
		}
	})
}

// With the longest names that the API allows, a disk's full name would have over 150 characters. vCenter's container storage accepts at most 80
// (vsphere-csi-driver#435).
func TestTheDisksOfAGroupWithALongNameHaveNamesThatVCenterTakesAndTheNextGroupFindsThem(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		s := r.serve()
		long := strings.Repeat("w", 57)
		g := s.group(long, 2)
		g.Spec.Disks = []v1alpha1.Disk{{Name: "d23456789-123456789-123456789z", SizeGiB: 2, Persistent: true}}
		up(t, g)
		names := map[string]bool{}
		for _, d := range r.FirstClassDisks() {
			names[d.Name] = true
			if len(d.Name) > 76 || !strings.HasPrefix(d.Name, "default/www") || !strings.HasSuffix(d.Name, "/"+g.Spec.Disks[0].Name) {
				t.Errorf("a disk is named %q", d.Name)
			}
		}
		former := g.UID
		remove(t, g)
		again := s.groupOf("default", long, "uid-of-the-next", 2)
		again.Spec.Disks = g.Spec.Disks
		again.Annotations = map[string]string{v1alpha1.AnnotationTakeDisksOf: string(former)}
		up(t, again)
		if now := r.FirstClassDisks(); len(names) != 2 || len(now) != 2 {
			t.Errorf("the names %v, and then %d disks", names, len(now))
		}
	})
}
