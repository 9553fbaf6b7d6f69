package test

import (
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// edit changes one thing in the spec.
func (c *chaos) edit() {
	s := &c.group.Spec
	text := ""
	what := c.rand.IntN(9)
	if s.Paused && c.rand.IntN(2) == 0 {
		what = 7 // a life is not to be spent in a pause
	}
	switch what {
	case 0, 1:
		s.Template = map[string]string{"vm-operator-template": otherTemplate, otherTemplate: "vm-operator-template"}[s.Template]
		text = "template " + s.Template
	case 2:
		s.CPU = int32(1 + c.rand.IntN(4))
		text = fmt.Sprint("cpu ", s.CPU)
	case 3:
		s.Memory = int32(1 + c.rand.IntN(4))
		text = fmt.Sprint("memory ", s.Memory)
	case 4:
		s.Deletion.QuarantineSeconds = []int32{0, 1, 5}[c.rand.IntN(3)]
		text = fmt.Sprint("quarantineSeconds ", s.Deletion.QuarantineSeconds)
	case 5:
		s.Update.Resize = []v1alpha1.ResizeWay{v1alpha1.ResizeAuto, v1alpha1.ResizeInPlace, v1alpha1.ResizeReplace}[c.rand.IntN(3)]
		text = "resize " + string(s.Update.Resize)
	case 6:
		if members := c.group.Status.Members; len(members) > 0 {
			m := members[c.rand.IntN(len(members))]
			s.Replace = []v1alpha1.Replacement{{Name: fmt.Sprintf("web-%d", m.Ordinal), MoRef: m.MoRef}}
		}
		text = fmt.Sprint("replace ", s.Replace)
	case 7:
		s.Paused = !s.Paused
		text = fmt.Sprint("paused ", s.Paused)
	case 8:
		s.ScaleIn.Remove = []string{fmt.Sprintf("web-%d", c.rand.IntN(5))}
		text = fmt.Sprint("scaleIn.remove ", s.ScaleIn.Remove)
	}
	c.group.Generation++
	c.say("edited, generation %d: %s", c.group.Generation, text)
}

// guests has guests fall sick, recover, and hang.
func (c *chaos) guests() {
	switch c.rand.IntN(4) {
	case 0:
		n := c.rand.IntN(6)
		c.say("guests of web-%d hang when they are asked to shut down", n)
		c.HangShutdown(func(vm vcsim.VM) bool { return vm.Name == fmt.Sprintf("web-%d", n) })
	case 1:
		c.say("no guest hangs")
		c.HangShutdown(nil)
	default:
		ours := c.ours()
		if len(ours) == 0 {
			return
		}
		vm, health := ours[c.rand.IntN(len(ours))], vcsim.Health(c.rand.IntN(3))
		c.say("%s (%s) is as well as %d: %v", vm.Path, vm.Ref.Value, health, c.Sick(vm.Path, health))
	}
}

// rest lets time pass, with calls, so that something can be finished, and what is unready for long be healed.
func (c *chaos) rest() {
	d := time.Duration(200+c.rand.IntN(1300)) * time.Millisecond
	c.say("%s pass", d)
	c.group.URL = c.servers[c.rand.IntN(2)].url
	for began := time.Now(); time.Since(began) < d; time.Sleep(40 * time.Millisecond) {
		if a, err := c.group.Sync(within(c.t)); err != nil {
			c.t.Fatal("a hook failed:", err)
		} else if text := fmt.Sprintf("%s %d/%d %s", a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage); text != c.last() {
			c.say("%s", text)
		}
	}
}

func (c *chaos) last() string { return c.diary[len(c.diary)-1] }

// cure has all guests well, and takes back a pause.
func (c *chaos) cure() {
	c.HangShutdown(nil)
	for _, vm := range c.ours() {
		_ = c.Sick(vm.Path, vcsim.Well) // it may be gone
	}
	c.restore()
	c.group.Edit(func(s *spec) { s.Paused = false })
}

// wrongInQuarantine says what is wrong with a VM in quarantine.
func (c *chaos) wrongInQuarantine(vm vcsim.VM, stamp vsphere.Stamp) string {
	keep := time.Duration(c.group.Spec.Deletion.QuarantineSeconds) * time.Second
	switch {
	case keep == 0 || time.Since(stamp.Quarantined) > keep+2*time.Second:
		return fmt.Sprintf("%s is still kept: %+v", vm.Path, stamp)
	case vm.Power != types.VirtualMachinePowerStatePoweredOff:
		return fmt.Sprintf("%s is on in quarantine", vm.Path)
	}
	return ""
}

// empty is the person who powers off what somebody powered on in quarantine, as the message asks for.
func (c *chaos) empty(a metacontroller.Answer) {
	for _, q := range a.Status.Quarantined {
		for _, vm := range c.ours() {
			if vm.Ref.Value == q.MoRef && vm.Power != types.VirtualMachinePowerStatePoweredOff {
				c.say("a person powers off %s in quarantine: %v", vm.Path, c.PowerOff(vm.Path))
			}
		}
	}
}
