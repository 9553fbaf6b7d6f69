//go:build unix

package promises

import (
	"regexp"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// checker watches one group in vCenter, and notes each promise that is broken.
type checker struct {
	*group
	namespace, name string
	member          *regexp.Regexp
	foreign         func(ref string) bool
	disks           map[string][]string // by the member's name: the persistent disks that it has had
	owner           map[string]string   // by the disk's id: the name of the member that has it
}

func newChecker(g *group, foreign func(ref string) bool) *checker {
	o := g.now()
	return &checker{group: g, namespace: o.Namespace, name: o.Name, member: regexp.MustCompile("^" + regexp.QuoteMeta(o.Name) + "-(0|[1-9][0-9]*)$"),
		foreign: foreign, disks: map[string][]string{}, owner: map[string]string{}}
}

// members returns the group's VMs that are members or standby members, and those in quarantine.
func (c *checker) members(s inventory) (members, quarantined []vm) {
	folder := s.folder("vm-operator", c.namespace, c.name)
	for _, v := range s.in(folder) {
		if c.member.MatchString(v.name) && !c.foreign(v.ref) {
			members = append(members, v)
		}
	}
	return members, s.in(s.folder("vm-operator", c.namespace, c.name, "quarantine"))
}

// byRef returns the VM with this moRef, if it is among all.
func byRef(all []vm, ref string) (vm, bool) {
	i := slices.IndexFunc(all, func(v vm) bool { return v.ref == ref })
	if i < 0 {
		return vm{}, false
	}
	return all[i], true
}

func running(all []vm) (n int) {
	for _, v := range all {
		if v.on {
			n++
		}
	}
	return n
}

// saw checks the promises after one change of vCenter.
func (c *checker) saw(before, after inventory) {
	if c.isGone() {
		return // another group may have its name by now
	}
	was, _ := c.members(before)
	is, quarantined := c.members(after)
	specs, touched, acts := c.history.window()
	if len(was) > 0 || len(is) > 0 {
		c.note(was, is)
	}
	wanted, floor := specs[0].wanted(), specs[0].floor()
	for _, a := range specs {
		wanted, floor = min(wanted, a.wanted()), min(floor, a.floor())
	}
	wanted, floor = wanted-acts, floor-acts

	added, excess, down := 0, []vm(nil), false
	for _, v := range is {
		if _, known := byRef(was, v.ref); !known {
			added++
		}
	}
	for _, v := range was {
		now, stays := byRef(is, v.ref)
		if touched(v.ref) || stays && (now.on || !v.on) {
			continue
		}
		down = down || v.on
		asked := slices.ContainsFunc(specs, func(a applied) bool { return a.replaces(v) || stays && a.resizes(v) && !a.spec.Paused })
		if asked {
			continue
		}
		switch {
		case !stays:
			excess = append(excess, v)
		case len(was) <= wanted:
			c.history.broke("%s was powered off, and the spec doesn't ask for that: there were %d VMs, and %d are wanted", v, len(was), wanted)
		}
	}
	if len(excess) > 0 && len(was)+added-len(excess) < wanted {
		c.history.broke("%v were removed, and the spec doesn't ask for that: there were %d VMs, and %d are wanted", excess, len(was)+added, wanted)
	}
	if serve := running(is); down && serve < floor {
		c.history.broke("a step took the group below replicas minus maxUnavailable: %d members serve, want at least %d", serve, floor)
	}
	for _, v := range quarantined {
		if v.on && !touched(v.ref) && !c.foreign(v.ref) {
			c.history.broke("%s runs in quarantine", v)
		}
	}
	c.checkDisks(is)
}

// note writes the changes of the group's VMs into the diary.
func (c *checker) note(was, is []vm) {
	for _, v := range is {
		if old, known := byRef(was, v.ref); !known {
			c.happened("vCenter: + %s", v)
		} else if old.on != v.on || old.name != v.name || old.cpu != v.cpu {
			c.happened("vCenter:   %s", v)
		}
	}
	for _, v := range was {
		if _, stays := byRef(is, v.ref); !stays {
			c.happened("vCenter: - %s", v)
		}
	}
}

// checkDisks checks that each member has the persistent disk of its ordinal, and no other.
func (c *checker) checkDisks(members []vm) {
	if o := c.now(); !o.Spec.HasPersistentDisks() {
		return
	}
	for _, v := range members {
		if v.on && len(v.disks) == 0 {
			c.history.broke("%s runs without its persistent disk", v)
		}
		for _, disk := range v.disks {
			if owner, known := c.owner[disk]; known && owner != v.name {
				c.history.broke("%s has the persistent disk %s of %s", v, disk, owner)
			}
			if !slices.Contains(c.disks[v.name], disk) {
				c.disks[v.name] = append(c.disks[v.name], disk)
				if len(c.disks[v.name]) > 1 {
					c.history.broke("%s got another persistent disk: %v", v, c.disks[v.name])
				}
			}
			c.owner[disk] = v.name
		}
	}
}

// wrong returns how the group's VMs differ from the spec, as a user would see it; "" if they match. held: running members may differ from
// the spec, because an update is held.
func (c *checker) wrong(s inventory, held bool) string {
	o := c.now()
	members, _ := c.members(s)
	want := applied{spec: o.Spec}
	serve, standby := 0, 0
	for _, v := range members {
		if !v.on {
			standby++
		} else {
			serve++
		}
		if (!held || !v.on) && v.from != templates[o.Spec.Template] {
			return v.String() + " is of another template"
		}
		if (!held || !v.on) && want.resizes(v) {
			return v.String() + " has another size"
		}
		if !v.on {
			continue
		}
		i := slices.IndexFunc(o.Status.Members, func(m v1alpha1.Member) bool { return m.Name == v.name })
		if i < 0 || o.Status.Members[i].MoRef != v.ref || o.Status.Members[i].InstanceUUID != v.uuid {
			return v.String() + " is not in the status"
		}
	}
	switch {
	case serve != int(*o.Spec.Replicas):
		return "the number of members that serve is not replicas"
	case standby != int(o.Spec.Standby):
		return "the number of standby members is not standby"
	}
	return ""
}

var moRef = regexp.MustCompile(`\bvm-[0-9]+\b`)

// checkEvents checks that no Event attributes to another account what the server did itself.
func (c *checker) checkEvents() {
	_, touched, _ := c.history.window()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if !slices.Contains([]string{"MemberGone", "MemberVanished", "MemberGivenUp", "MemberReappeared", "MemberPoweredOff"}, e.Reason) {
			continue
		}
		named := moRef.FindAllString(e.Message, -1)
		if len(named) == 0 || slices.ContainsFunc(named, func(ref string) bool { return !touched(ref) }) || strings.Contains(e.Message, "by user:") {
			c.history.broke("no administrator did this: Event %s: %s", e.Reason, e.Message)
		}
	}
}
