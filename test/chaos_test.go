package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/test/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var (
	chaosSeeds = flag.Int("chaos.seeds", 4, "how many lives the chaos test leads")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "the first seed; a failure names its own")
)

// TestChaos leads lives in which users scale and edit, admins power off, destroy, move and rename, guests fall sick and
// hang, calls and tasks fail, replies are lost, sessions end, vCenter is away, and the two copies of the server are
// stopped and started, all at random. When it is quiet again, there must be exactly the wanted members, each as the spec
// says, and all strangers, and nothing in quarantine for longer than it may be; and after the delete, nothing but the
// strangers (and what was retained).
func TestChaos(t *testing.T) {
	for i := range *chaosSeeds {
		seed := *chaosSeed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, seed)
			for range 25 {
				c.step()
			}
			c.calm()
		})
	}
}

type chaos struct {
	*rig
	rand      *rand.Rand
	servers   [2]*copyOfServer
	group     *metacontroller.Group
	strangers []string
	diary     []string
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{rand: rand.New(rand.NewPCG(seed, 1)), rig: newRig(t, vcsim.Config{
		Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true},
		Clusters: 2, Latency: vcsim.Latency{Clone: 40 * time.Millisecond, Power: 10 * time.Millisecond, Reconfigure: 5 * time.Millisecond, Other: 5 * time.Millisecond}})}
	for i := range c.servers {
		c.start(i)
	}
	c.group = c.servers[0].group("web", 3)
	c.group.Spec.Deletion.ShutdownTimeoutSeconds = seconds(1)
	c.group.Spec.Deletion.QuarantineSeconds = []int32{0, 1, 5}[c.rand.IntN(3)]
	if seed%2 == 1 {
		c.group.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(1)}
		c.group.Spec.Update.ProgressDeadlineSeconds = seconds(3)
	}
	c.strangers = []string{"/DC0/vm/web-1"}
	_, err := c.AddVM("/DC0/vm", "web-1")
	c.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what happened:\n%s", strings.Join(c.diary, "\n"))
		}
	})
	return c
}

func (c *chaos) start(i int) {
	c.servers[i] = c.serve(inCluster0, func(_ *vsphere.Config, l *loop.Config) { l.Lease, l.Resync, l.Slots = 2*time.Second, time.Second, 4 })
}

func (c *chaos) say(format string, args ...any) {
	c.diary = append(c.diary, fmt.Sprintf(format, args...))
}

// step calls a hook now and then, at a copy chosen at random, and between the calls something happens.
func (c *chaos) step() {
	for range c.rand.IntN(4) {
		c.group.URL = c.servers[c.rand.IntN(2)].url
		if a, err := c.group.Sync(within(c.t)); err != nil {
			c.t.Fatal("a hook failed:", err)
		} else {
			c.say("%s %d/%d %s", a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
		}
		time.Sleep(time.Duration(c.rand.IntN(30)) * time.Millisecond)
	}
	methods := []string{"CloneVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigVM_Task", "CreateFolder",
		"WaitForUpdatesEx", "RetrievePropertiesEx", "ModifyListView", "ShutdownGuest", "ResetVM_Task", "Rename_Task", "MoveIntoFolder_Task", "ReconfigureComputeResource_Task",
		"POST /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach-multiple-tags-to-object"}
	kinds := []vcsim.Kind{vcsim.Clone, vcsim.PowerOn, vcsim.PowerOff, vcsim.Destroy, vcsim.Reconfigure, vcsim.ShutdownGuest, vcsim.Reset,
		vcsim.Rename, vcsim.MoveInto, vcsim.ReconfigureCluster}
	n := 1 + c.rand.IntN(3)
	switch deed := c.rand.IntN(30); deed {
	case 0, 1, 2:
		c.group.Scale(int32(c.rand.IntN(7)))
		c.say("scaled to %d", *c.group.Spec.Replicas)
	case 3, 4, 5, 6, 7:
		c.admin(deed)
	case 8:
		method := methods[c.rand.IntN(len(methods))]
		c.say("%d replies of %s are lost", n, method)
		c.LoseReply(method, n)
	case 9:
		kind := kinds[c.rand.IntN(len(kinds))]
		c.say("%d tasks %s fail", n, kind)
		c.FailTask(kind, nil, &types.GenericVmConfigFault{Reason: "chaos"}, n)
	case 10:
		c.say("sessions end")
		c.DropSessions()
	case 11:
		c.say("vCenter is away")
		c.Down()
		time.Sleep(time.Duration(c.rand.IntN(50)) * time.Millisecond)
		c.Up()
	case 12:
		i := c.rand.IntN(2)
		c.say("copy %d is started anew", i)
		c.servers[i].stop()
		c.start(i)
	case 13, 14, 15, 16, 17:
		c.edit()
	case 18, 19, 20:
		c.guests()
	case 25, 26, 27, 28, 29:
		c.settle()
	default:
		c.rest()
	}
	time.Sleep(time.Duration(c.rand.IntN(60)) * time.Millisecond)
}

// ours are the VMs that bear a stamp.
func (c *chaos) ours() []vcsim.VM {
	return slices.DeleteFunc(c.VMs(), func(vm vcsim.VM) bool { return vm.ExtraConfig[vsphere.StampKey] == "" })
}

// admin does something to a member. What does not succeed (it is busy, or gone meanwhile) did not happen.
func (c *chaos) admin(deed int) {
	ours := c.ours()
	if len(ours) == 0 {
		return
	}
	vm := ours[c.rand.IntN(len(ours))]
	deeds := map[int]func() error{
		3: func() error { return c.PowerOff(vm.Path) },
		4: func() error { return c.PowerOn(vm.Path) },
		5: func() error { return c.Destroy(vm.Path) },
		6: func() error { return c.Move(vm.Path, "/DC0/vm") },
		7: func() error { return c.Rename(vm.Path, fmt.Sprintf("renamed-%d", c.rand.IntN(1000))) },
	}
	err := deeds[deed]()
	c.say("an admin %s %s: %v", []string{3: "powers off", 4: "powers on", 5: "destroys", 6: "moves", 7: "renames"}[deed], vm.Path, err)
}

// wrong says what is not as it should be.
func (c *chaos) wrong() string {
	perOrdinal := map[int32]bool{}
	for _, vm := range c.ours() {
		stamp, err := vsphere.DecodeStamp(vm.ExtraConfig[vsphere.StampKey])
		if err == nil && !stamp.Quarantined.IsZero() {
			if text := c.wrongInQuarantine(vm, stamp); text != "" {
				return text
			}
			continue
		}
		if err != nil || stamp.Marked || vm.Power != types.VirtualMachinePowerStatePoweredOn || perOrdinal[stamp.Ordinal] {
			return fmt.Sprintf("%s: %v, %s, %+v", vm.Path, err, vm.Power, stamp)
		}
		if s := &c.group.Spec; stamp.Revision != c.revision() || vm.CPUs != s.CPU || vm.MemoryMB != 1024*s.Memory {
			return fmt.Sprintf("%s has %d CPUs, %d MB, revision %s; wanted are %d, %d GB, %s", vm.Path, vm.CPUs, vm.MemoryMB, stamp.Revision, s.CPU, s.Memory, c.revision())
		}
		if text := c.unsettled(vm, stamp); text != "" {
			return text
		}
		perOrdinal[stamp.Ordinal] = true
	}
	if len(perOrdinal) != int(*c.group.Spec.Replicas) {
		return fmt.Sprintf("%d wanted; the ordinals are %v", *c.group.Spec.Replicas, perOrdinal)
	}
	return c.unruled()
}

// decide is the person who removes one of two VMs that claim one ordinal and were both in use.
func (c *chaos) decide() {
	seen := map[int32]bool{}
	for _, vm := range c.members() {
		stamp, _ := vsphere.DecodeStamp(vm.ExtraConfig[vsphere.StampKey])
		if seen[stamp.Ordinal] {
			c.say("a person removes %s: %v", vm.Path, c.Destroy(vm.Path))
		}
		seen[stamp.Ordinal] = true
	}
}

func (c *chaos) calm() {
	c.say("calm")
	c.Heal()
	c.cure()
	ctx := within(c.t)
	for i := 0; c.wrong() != ""; i++ { // what one copy has begun may still be put right by the other
		c.group.URL = c.servers[i%2].url
		a, err := c.group.Sync(ctx)
		if err != nil {
			c.t.Fatalf("%v; %s; last: %s %s", err, c.wrong(), c.group.Status.Phase, c.group.Status.LastMessage)
		}
		if i > 500 && i < 504 {
			c.say("%d: %s %s", i, a.Status.Phase, a.Status.LastMessage)
		}
		for _, condition := range a.Status.Conditions {
			if condition.Type == v1alpha1.ConditionDuplicateMember {
				c.decide()
			}
		}
		c.empty(a)
		time.Sleep(20 * time.Millisecond)
	}
	for i := range c.servers {
		c.group.URL = c.servers[i].url
		up(c.t, c.group)
	}
	if wrong := c.wrong(); wrong != "" {
		c.t.Error(wrong)
	}
	c.group.URL = c.servers[c.rand.IntN(2)].url
	c.end(c.rand.IntN(3) == 0)
}

// end deletes the group and looks at what is left of it: nothing, or as many VMs that are nobody's as there were members.
func (c *chaos) end(retain bool) {
	left := 0
	if retain {
		c.group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		left = int(*c.group.Spec.Replicas)
	}
	remove(c.t, c.group)
	for _, vm := range c.ours() {
		c.t.Errorf("%s is left behind", vm.Path)
	}
	for _, path := range c.strangers {
		if _, err := c.Find(path); err != nil {
			c.t.Errorf("the stranger %s is gone", path)
		}
	}
	if _, err := c.find.Folder(context.Background(), web); err == nil && left == 0 {
		c.t.Error("the group's folder is left behind")
	}
	const templates = 2
	if all := c.VMs(); len(all) != len(c.strangers)+templates+left || tally(all, isOn) != left {
		c.t.Errorf("%d VMs are left behind, %d of them on; %d were to be: %v", len(all)-len(c.strangers)-templates, tally(all, isOn), left, refs(all))
	}
}
