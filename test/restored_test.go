package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// restoration is one way in which a backup of a member comes back.
type restoration struct{ by, on, place, stamp, account, member, group string }

// The values of a restoration. That of by is in restore.
const (
	placedElsewhere, placedUnderItsName, placedInItsFolder              = "elsewhere", "under its name elsewhere", "in the group's folder"
	plainStamp, markedStamp, quarantinedStamp, standbyStamp, olderStamp = "plain", "marked", "in quarantine", "standby", "of yesterday's revision"
	byAnother, byServers                                                = "another account", "the server's account"
	memberReplaced, memberThere, memberMissing                          = "member replaced", "member there", "member missing"
	groupRests, groupPaused, groupScaled, groupUpdated                  = "group at rest", "group paused", "group scaled", "group updated"
)

// restorations are the reported cases, and then rows with each pair of values.
func restorations() (all []restoration) {
	all = []restoration{ // issue: each of these was destroyed, or powered off and put into quarantine
		{createVM, staysOff, placedElsewhere, plainStamp, byAnother, memberReplaced, groupRests},
		{createVM, staysOff, placedInItsFolder, plainStamp, byServers, memberReplaced, groupRests},
		{createVM, staysOff, placedElsewhere, plainStamp, byAnother, memberReplaced, groupPaused},
		{cloneVM, staysOff, placedInItsFolder, plainStamp, byAnother, memberReplaced, groupRests},
		{createVM, onBefore, placedElsewhere, plainStamp, byAnother, memberReplaced, groupRests},
		{registerVM, staysOff, placedElsewhere, plainStamp, byAnother, memberReplaced, groupRests},
	}
	columns := [][]string{{createVM, cloneVM, registerVM}, {staysOff, onBefore, onAfter}, {placedElsewhere, placedUnderItsName, placedInItsFolder},
		{plainStamp, markedStamp, quarantinedStamp, standbyStamp, olderStamp}, {byAnother, byServers}, {memberReplaced, memberThere, memberMissing}, {groupRests, groupPaused, groupScaled, groupUpdated}}
	var sizes []int
	for _, c := range columns {
		sizes = append(sizes, len(c))
	}
	for _, row := range pairs(sizes...) {
		of := func(i int) string { return columns[i][row[i]] }
		c := restoration{of(0), of(1), of(2), of(3), of(4), of(5), of(6)}
		if c.by == registerVM && c.member == memberMissing { // that is the member, back (TestAVMThatIsRegisteredWhileItsMemberIsMissingIsNotLost)
			c.by = createVM
		}
		all = append(all, c)
	}
	return all
}

// savedStamp returns the stamp that a backup has of a member, from the stamp that the member has now.
func savedStamp(text, kind string) string {
	s, err := stamp.Decode(text)
	if err != nil {
		panic(err)
	}
	switch at := s.Created.Add(time.Minute); kind {
	case markedStamp:
		s.Marked, s.Why, s.MarkedAt = true, plan.MarkReasonUpdate, at
	case quarantinedStamp:
		s.Marked, s.Why, s.MarkedAt, s.Quarantined = true, plan.MarkReasonScaleIn, at, at
	case standbyStamp:
		s.Standby = true
	case olderStamp:
		s.Revision = "0a1b2c3d4e"
	}
	return s.Encode()
}

// restoredFor is how long before a restore the backup was made.
const restoredFor = time.Hour

// A VM that a backup product restored has a member's stamp and instanceUuid, and data that nothing else may have. The server must not touch it, ever,
// and must not take it for a member; the group must be as without it.
func TestARestoredVMIsNeverTouchedAndIsNoMember(t *testing.T) {
	t.Parallel()
	for i, c := range restorations() {
		if leftOut(i) {
			continue
		}
		t.Run(strings.Join([]string{c.by, c.on, c.place, c.stamp, c.account, c.member, c.group}, ", "), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Hosts: 3, Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true}})
				g := r.serve().group("web", 2)
				g.Spec.Service, g.Spec.Readiness.Check = &v1alpha1.Service{}, v1alpha1.ReadyGuestIP
				up(t, g)
				saved, err := r.Save(webFolder + "web-0")
				r.must(err)
				stampText := savedStamp(r.details(webFolder + "web-0").ExtraConfig[stamp.Key], c.stamp)
				time.Sleep(restoredFor)
				up(t, g)
				if c.group == groupPaused {
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
					mustSync(t, g)
				}
				gone := r.loses(t, g, c)
				how := restoredVM{by: c.by, as: r.as(c.account == byServers), folder: "/DC0/vm/restores", name: "restored-web-0", stamp: stampText, on: c.on}
				switch c.place {
				case placedUnderItsName:
					how.name = "web-0"
				case placedInItsFolder:
					how.folder = web
				}
				_, err = r.MakeFolder(how.folder)
				r.must(err)
				u := r.restore(saved, how)
				r.lives(t, g, c, gone, u)
				r.ends(t, g, u)
				time.Sleep(10 * time.Minute)
				u.check()
			})
		})
	}
}

// loses makes what a restoration says of the member of ordinal 0, and returns how many members are missing.
func (r *rig) loses(t *testing.T, g *metacontroller.Group, c restoration) (gone int) {
	t.Helper()
	switch c.member {
	case memberReplaced:
		was := r.details(webFolder + "web-0").Ref
		r.must(r.Destroy(webFolder + "web-0"))
		if c.group == groupPaused { // the server replaces it when the pause ends
			mustSync(t, g)
			return 0
		}
		until(t, g, "web-0 is replaced", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.ReadyReplicas == 2 && a.Status.Members[0].MoRef != was.Value
		})
	case memberMissing:
		_, gone = r.removeHostOf(webFolder + "web-0")
		until(t, g, "members are missing", func(a metacontroller.Answer) bool { return tallyVanished(a.Status) == gone })
	}
	return gone
}

// lives lets the group live beside a restored VM as a restoration says, and checks that the VM is no member meanwhile.
func (r *rig) lives(t *testing.T, g *metacontroller.Group, c restoration, gone int, u *untouched) {
	t.Helper()
	rest := func(d time.Duration) {
		syncFor(t, g, d, "without the restored VM", func(a metacontroller.Answer) bool { return !lists(&a.Status, u) })
		u.check()
	}
	// An ordinal without a member isn't cloned again while events say that the server's account created a VM for it.
	waits := c.account == byServers && c.member == memberReplaced && c.group == groupPaused
	settles := func(n int) {
		t.Helper()
		if gone > 0 || waits {
			rest(5 * time.Minute)
			return
		}
		until(t, g, fmt.Sprintf("%d members are ready", n), func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && int(a.Status.ReadyReplicas) == n && len(a.Status.Members) == n && a.Status.UpdatedReplicas == int32(n)
		})
		u.check()
		if lists(&g.Status, u) || len(endpoints(t, g)) != n {
			t.Errorf("got the members %+v and the endpoints %v; want %d without the restored VM", g.Status.Members, endpoints(t, g), n)
		}
	}
	rest(5 * time.Minute)
	switch c.group {
	case groupPaused:
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
	case groupScaled:
		g.Scale(1)
		settles(1)
		g.Scale(3)
		settles(3)
		g.Scale(2)
	case groupUpdated:
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
	}
	settles(2)
	if gone > 0 && tallyVanished(g.Status) != gone {
		t.Errorf("%d members are missing; want %d, as before the restore", tallyVanished(g.Status), gone)
	}
	if gone == 0 && !waits {
		was := refs(r.members())
		rest(10 * time.Minute)
		r.sameVMs(was)
	}
}

// ends deletes a group beside a restored VM: all its members go. Those that are missing are given up once the deletion waits for nothing else.
func (r *rig) ends(t *testing.T, g *metacontroller.Group, u *untouched) {
	t.Helper()
	left := func() (refs []string) {
		for _, vm := range r.VMs() {
			if vm.Ref != u.ref && isStamped(vm) {
				refs = append(refs, vm.Path+" "+vm.Ref.Value)
			}
		}
		return refs
	}
	g.Generation++
	a, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool {
		return a.Finalized || a.Status.Phase == v1alpha1.PhaseError && len(left()) == 0
	})
	if err == nil && !a.Finalized && len(r.OutsideInventory()) > 0 {
		g.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		_, err = g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
	}
	if err != nil || len(left()) > 0 {
		t.Errorf("%v, and %v are left of the deleted group", err, left())
	}
	u.check()
}

// lists reports whether a status has a VM as a member, a standby member or in quarantine.
func lists(s *v1alpha1.VmGroupStatus, u *untouched) bool {
	return slices.ContainsFunc(s.Members, func(m v1alpha1.Member) bool { return m.MoRef == u.ref.Value }) ||
		slices.ContainsFunc(s.Standby, func(m v1alpha1.StandbyMember) bool { return m.MoRef == u.ref.Value }) ||
		slices.ContainsFunc(s.Quarantined, func(m v1alpha1.Quarantined) bool { return m.MoRef == u.ref.Value })
}

// A restored VM that is registered while its member is missing can be the member, back. Until the group is deleted, it must exist, where it is.
func TestAVMThatIsRegisteredWhileItsMemberIsMissingIsNotLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{plainStamp, markedStamp, quarantinedStamp, standbyStamp, olderStamp} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newVanishRig(t)
				g := r.serve().group("web", 2)
				g.Spec.Update.Strategy = v1alpha1.UpdateOnDelete // an update would replace a member of another revision
				up(t, g)
				saved, err := r.Save(webFolder + "web-0")
				r.must(err)
				text := savedStamp(r.details(webFolder + "web-0").ExtraConfig[stamp.Key], kind)
				time.Sleep(restoredFor)
				up(t, g)
				r.loses(t, g, restoration{member: memberMissing})
				_, err = r.MakeFolder("/DC0/vm/restores")
				r.must(err)
				u := r.restore(saved, restoredVM{by: registerVM, as: r.as(false), folder: "/DC0/vm/restores", name: "restored-web-0", stamp: text, on: staysOff})
				syncFor(t, g, 20*time.Minute, "with the restored VM in its place", func(metacontroller.Answer) bool {
					is, exists := u.find()
					return exists && is.Path == u.was.Path
				})
				if is := r.details(u.was.Path).Disks; fmt.Sprint(is) != fmt.Sprint(u.disks) {
					t.Errorf("the restored VM has the disks %+v; want %+v", is, u.disks)
				}
			})
		})
	}
}

// A VM that is restored in place, under the member's name in the group's folder, while the group is paused, can be the member again
// (docs/day-to-day.md), whatever the stamp in the backup says.
func TestAMemberRestoredInPlaceIsNotLost(t *testing.T) {
	t.Parallel()
	for _, by := range []string{createVM, cloneVM, registerVM} {
		for _, kind := range []string{plainStamp, markedStamp, quarantinedStamp, standbyStamp, olderStamp} {
			t.Run(by+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newVanishRig(t)
					g := r.serve().group("web", 2)
					g.Spec.Update.Strategy = v1alpha1.UpdateOnDelete // an update would replace a member of another revision
					up(t, g)
					saved, err := r.Save(webFolder + "web-0")
					r.must(err)
					text := savedStamp(r.details(webFolder + "web-0").ExtraConfig[stamp.Key], kind)
					time.Sleep(restoredFor)
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
					mustSync(t, g)
					r.must(r.Destroy(webFolder + "web-0"))
					mustSync(t, g)
					u := r.restore(saved, restoredVM{by: by, as: r.as(false), folder: web, name: "web-0", stamp: text, on: staysOff})
					syncFor(t, g, 5*time.Minute, "paused", func(metacontroller.Answer) bool { u.check(); return true })
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
					syncFor(t, g, 20*time.Minute, "with the restored VM", func(metacontroller.Answer) bool {
						_, exists := u.find()
						return exists
					})
					is, _ := u.find()
					if now := r.details(is.Path).Disks; fmt.Sprint(now) != fmt.Sprint(u.disks) {
						t.Errorf("the restored VM has the disks %+v; want %+v", now, u.disks)
					}
				})
			})
		}
	}
}
