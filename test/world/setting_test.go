package world

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// setting is how a life is set up. Shrinking a life leaves out events, and keeps the setting.
type setting struct {
	seed     uint64
	spec     v1alpha1.VmGroupSpec
	replicas int  // how many servers run
	slots    int  // of each server
	up       bool // the group is up when the life begins
	tools    bool // readiness depends on the guests
	halts    bool // guests halt when asked
	// peaceful: only users and the server's replicas do anything, so availability must never fall below the promise.
	peaceful bool
	deletes  bool // the group is deleted in the end
	holds    bool // a user holds each member, and lets every second one go when asked: see kube.hold
	disks    bool // the group has persistent disks
	typos    bool // users mistype the template
	strays   bool // backups are restored, and strangers write stamps
	restores bool // etcd goes back to a backup
	// identities: vCenter changes instanceUuids.
	identities bool
	// hosts is how many hosts there are for members that prefer to be apart; 0: the group needs no rule.
	hosts   int
	trouble trouble
	defect  defect
}

func settingOf(seed uint64) setting {
	r := rand.New(rand.NewPCG(seed, 1))
	n := int32(r.IntN(5))
	s := setting{seed: seed, replicas: []int{1, 2, 2, 2, 2, 2, 3, 3}[r.IntN(8)], slots: 1 + r.IntN(6), up: r.IntN(4) > 0,
		tools: r.IntN(3) == 0, halts: r.IntN(4) > 0, peaceful: seed%3 == 2, deletes: r.IntN(2) == 0}
	s.spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Replicas: &n, Inventory: v1alpha1.InventoryNone}
	if r.IntN(4) == 0 {
		s.spec.Inventory = ""
	}
	timeout := []int32{0, 0, 60}[r.IntN(3)]
	s.spec.Deletion.ShutdownTimeoutSeconds = &timeout
	s.spec.Deletion.QuarantineSeconds = []int32{0, 0, 0, 120}[r.IntN(4)]
	s.spec.Update.Resize = []v1alpha1.ResizeWay{"", "", v1alpha1.ResizeReplace}[r.IntN(3)]
	s.spec.ScaleIn.Order = []v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}[r.IntN(3)]
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	switch r.IntN(4) {
	case 0:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = &one, &none
	case 1:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = &none, &one
	}
	s.spec.Standby = []int32{0, 0, 0, 1, 2}[r.IntN(5)]
	if s.holds = seed%8 == 5; s.holds {
		s.spec.Deletion.HoldTimeoutSeconds = holdTimeout
	}
	if s.tools {
		s.spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		if r.IntN(2) == 0 {
			s.spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
		}
	}
	s.typos = seed%11 == 7
	s.strays = seed%5 == 2
	s.restores = seed%7 == 4
	s.identities = seed%7 == 5
	if seed%9 == 6 {
		s.spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}}
	}
	if seed%6 == 1 {
		s.spec.Placement.AntiAffinity, s.hosts = v1alpha1.AntiAffinityPreferred, 1+int(seed/6%3)
	}
	if s.disks = seed%16 == 3 || seed%16 == 13; s.disks {
		s.withDisks(rand.New(rand.NewPCG(seed, 3)))
	}
	return s
}

// withDisks gives the group persistent disks. The API refuses standby members and a quarantine beside them.
func (s *setting) withDisks(r *rand.Rand) {
	s.spec.Standby, s.spec.Deletion.QuarantineSeconds = 0, 0
	for _, name := range []string{"data", "log"}[:1+r.IntN(2)] {
		s.spec.Disks = append(s.spec.Disks, v1alpha1.Disk{Name: name, SizeGiB: 10, Persistent: true, Retention: retentionOf(r.IntN(4))})
	}
}

// begin starts a life.
func (w *world) begin() {
	w.create()
	for range w.set.replicas {
		w.update(w.start(), 0, true)
	}
	unmanaged := w.vc.add("", plan.Action{Op: plan.Clone, Key: "web-0", Args: plan.CloneArgs{Folder: elsewhere}})
	unmanaged.foreign = true
	if w.set.up {
		g := w.kube.group
		w.kube.held = true
		w.vc.folder, w.vc.folders = w.vc.ref("group"), 1
		for i := range *g.Spec.Replicas {
			m := w.vc.add(g.UID, plan.Action{Op: plan.Clone, Key: plan.MemberName(g.Name, i), Ordinal: i, Args: plan.CloneArgs{Folder: w.vc.folder, Revision: plan.Revision(&g.Spec), CPU: g.Spec.CPU, MemoryMB: g.MemoryMB(), Details: &plan.Details{Home: plan.HomeOf(&g.Spec).String()}}, Generation: 1})
			w.vc.furnish(m, &g.Spec)
			if w.set.trouble.any() { // too old to count as proof that new members can be made
				m.Created = m.Created.Add(-2 * time.Hour)
			}
			w.vc.power(m, true)
			w.vc.boots(m)
			m.serves = true
		}
		for _, r := range w.replicas {
			w.update(r, 0, true)
		}
	}
	w.look()
}
