package inventory

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func disk(key int32, capacity int64, uuid, content string) vim.BaseVirtualDevice {
	return &vim.VirtualDisk{CapacityInBytes: capacity, VirtualDevice: vim.VirtualDevice{Key: key,
		Backing: &vim.VirtualDiskFlatVer2BackingInfo{Uuid: uuid, ContentId: content}}}
}

func TestAFingerprintDependsOnTheDisksAlone(t *testing.T) {
	t.Parallel()
	one, two := disk(2000, 10<<30, "u1", "c1"), disk(2001, 20<<30, "u2", "c2")
	const golden = "90fddc445c"
	fingerprint := func(id string, devices []vim.BaseVirtualDevice) string {
		return disks.Fingerprint(id, devices)
	}
	was := fingerprint("id", []vim.BaseVirtualDevice{one, two})
	if was != golden {
		t.Errorf("the fingerprint has changed, to %s: an upgrade would roll VMs", was)
	}
	kb := &vim.VirtualDisk{CapacityInKB: 10 << 20, VirtualDevice: *one.GetVirtualDevice()}
	for what, same := range map[string][]vim.BaseVirtualDevice{
		"another order":  {two, one},
		"other devices":  {&vim.VirtualCdrom{}, one, two, &vim.VirtualE1000{}},
		"a size in KB":   {kb, two},
		"other backings": {one, &vim.VirtualDisk{CapacityInBytes: 20 << 30, VirtualDevice: vim.VirtualDevice{Key: 2001, Backing: &vim.VirtualDiskSeSparseBackingInfo{Uuid: "u2", ContentId: "c2"}}}},
	} {
		if got := fingerprint("id", same); got != was {
			t.Errorf("%s: %s, not %s", what, got, was)
		}
	}
	seen := map[string]string{was: "itself"}
	for what, other := range map[string][]vim.BaseVirtualDevice{
		"one disk less":   {one},
		"none":            nil,
		"another content": {one, disk(2001, 20<<30, "u2", "c3")},
		"another uuid":    {one, disk(2001, 20<<30, "u3", "c2")},
		"another size":    {one, disk(2001, 21<<30, "u2", "c2")},
	} {
		got := fingerprint("id", other)
		if seen[got] != "" {
			t.Errorf("%s has the fingerprint of %s", what, seen[got])
		}
		seen[got] = what
	}
	if fingerprint("id2", []vim.BaseVirtualDevice{one, two}) == was {
		t.Error("another template has the same")
	}
}

func TestAFingerprintWithAMissingPartIsUnknown(t *testing.T) {
	t.Parallel()
	for what, part := range map[string]vim.BaseVirtualDevice{
		"no contentId": disk(2000, 10<<30, "u1", ""),
		"no uuid":      disk(2000, 10<<30, "", "c1"),
		"neither":      disk(2000, 10<<30, "", ""),
	} {
		if got := disks.Fingerprint("id", []vim.BaseVirtualDevice{part}); got != "" {
			t.Errorf("%s: %s", what, got)
		}
		if got := disks.Fingerprint("id", []vim.BaseVirtualDevice{disk(2001, 1, "u2", "c2"), part}); got != "" {
			t.Errorf("%s of one of two disks: %s", what, got)
		}
	}
	kind := &vim.VirtualDisk{CapacityInBytes: 1, VirtualDevice: vim.VirtualDevice{Backing: &vim.VirtualDiskFlatVer1BackingInfo{ContentId: "c"}}}
	if disks.Fingerprint("id", []vim.BaseVirtualDevice{kind}) == "" {
		t.Error("a disk of a kind that has no uuid has no fingerprint")
	}
}

func TestATemplateWhoseDisksCannotBeReadHasNoFingerprintAndIsUsable(t *testing.T) {
	t.Parallel()
	s := newFilled()
	m := template("vm-t", "ubuntu", "vm")
	s.publish(m)
	if got := s.look().Template; got.Fingerprint != "" || got.MoRef != "vm-t" {
		t.Errorf("the template is %+v, want vm-t without a fingerprint", got)
	}
	m.Contents = "aa"
	s.notified = nil
	s.publish(m)
	if got := s.look().Template; got.Fingerprint != "aa" || len(s.notified) != 1 || s.notified[0] != types.UID("") {
		t.Errorf("%+v, notified %v", got, s.notified)
	}
	s.publish(template("vm-u", "ubuntu", "root"))
	if got := s.look().Template; got.Fingerprint != "" || len(got.Paths) != 2 {
		t.Errorf("of two: %+v", got)
	}
}

// The members' own template may be one of the group's VMs that an operator converted to a template.
func TestATemplateWithAStampHasAFingerprintToo(t *testing.T) {
	t.Parallel()
	s := newFilled()
	m := machine("uid-web", 0)
	m.Template, m.Name, m.Contents = true, "ubuntu", "aa"
	s.publish(m)
	m.Contents = "bb"
	s.publish(m)
	if got := s.look().Template; got.Fingerprint != "bb" {
		t.Errorf("the template is %+v, want the fingerprint bb", got)
	}
}

func TestAnUnreadableFingerprintBlocksNoRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := vctest.New(t)
		c := clientOf(t, w)
		s, err := c.Session(t.Context())
		w.Must(err)
		ref, err := w.Find("ubuntu")
		w.Must(err)
		reading := Reading{Machines: []Machine{{VM: plan.VM{MoRef: "vm-999999"}, Template: true, Readable: true},
			{VM: plan.VM{MoRef: ref.Value}, Template: true, Readable: true, InstanceUUID: "id"}, {VM: plan.VM{MoRef: w.Unmanaged.Value}, Readable: true}}}
		if err := readTemplates(t.Context(), s, &reading); err != nil || reading.Machines[0].Contents != "" || reading.Machines[1].Contents == "" || reading.Machines[2].Contents != "" {
			t.Errorf("the error is %v, and the machines are %+v, want a fingerprint of the second one alone", err, reading.Machines)
		}
		w.DropSessions()
		if err := readTemplates(t.Context(), s, &reading); err == nil {
			t.Error("the end of a session looks like a template without disks")
		}
		reading.Machines[1].Contents = ""
		w.Must(c.Call(t.Context(), func(ctx context.Context, s *session.Session) error { // makes the call in a new session
			w.FailCall("RetrievePropertiesEx", new(vim.SystemError), 0)
			return readTemplates(ctx, s, &reading)
		}))
		if reading.Machines[1].Contents != "" {
			t.Errorf("the machines are %+v, want no fingerprint after the read failed", reading.Machines)
		}
	})
}

// The stamp of a clone made from a reading without a fingerprint would have none, and the server would never replace the clone for a new
// version of its template.
func TestACancelledReadLeavesNoTemplateWithoutItsFingerprint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := vctest.New(t)
		c := clientOf(t, w)
		ref, err := w.Find("ubuntu")
		w.Must(err)
		reading := Reading{Machines: []Machine{{VM: plan.VM{MoRef: ref.Value}, Template: true, Readable: true, InstanceUUID: "id"}}}
		err = c.Call(t.Context(), func(ctx context.Context, s *session.Session) error {
			w.FailCall("RetrievePropertiesEx", new(vim.RequestCanceled), 1)
			return readTemplates(ctx, s, &reading)
		})
		if err == nil {
			t.Errorf("readTemplates succeeded although a call failed: %+v", reading.Machines)
		}
	})
}

// clientOf returns a client of a vCenter. The client logs out when the test ends.
func clientOf(t testing.TB, w *vctest.World) *session.Client {
	t.Helper()
	c, err := session.New(session.Config{Host: w.URL().Host, User: "vmgroup", Password: "pass", Insecure: true, Log: zerolog.Nop(),
		Dial: w.Network.DialContext, Through: w.Direct})
	w.Must(err)
	t.Cleanup(func() { c.Logout(context.Background()) })
	return c
}
