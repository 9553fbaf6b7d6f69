package inventory

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The server waits before it counts the VM as gone: another replica may be removing the group, and its changes of the other members can
// become visible a moment later.
func TestAVMThatLostItsStampCountsAsGoneAfterAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, notified := newFilled(), make(chan types.UID, 10)
		s.changed = func(uid types.UID) { notified <- uid }
		m := machine("uid-web", 0)
		s.publish(m)
		m.StampText = ""
		s.publish(m)
		gone := func(finalizing bool) bool {
			return len(s.State(web, plan.Query{Recorded: members(m.MoRef), Finalizing: finalizing}).Gone) > 0
		}
		if gone(false) || !gone(true) {
			t.Errorf("at once: gone is %v; for a group that is removed: %v", gone(false), gone(true))
		}
		time.Sleep(time.Second)
		m.CPU++
		s.publish(m) // a second reading of the VM
		for len(notified) > 0 {
			<-notified
		}
		time.Sleep(unstampedDelay)
		synctest.Wait()
		if !gone(false) || len(notified) != 1 || <-notified != "uid-web" {
			t.Errorf("after %s: gone is %v", unstampedDelay, gone(false))
		}
	})
}

// A VM that lost its stamp is not a member, so the VM must not count as missing when it leaves: no later reading could find it again. (Found
// by a randomized test: a deletion never ended.)
func TestAVMThatLostItsStampAndLeavesIsNotMissing(t *testing.T) {
	for name, course := range map[string]func(s *filled, m Machine){
		"seen before it leaves": func(s *filled, m Machine) {
			m.StampText = ""
			s.publish(m)
			s.Publish(Reading{VCenter: "vc", Gone: []string{m.MoRef}})
		},
		"seen when it is back": func(s *filled, m Machine) {
			s.Publish(Reading{VCenter: "vc", Gone: []string{m.MoRef}})
			m.MoRef, m.StampText = "vm-new", ""
			s.publish(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := newFilled(), machine("uid-web", 0)
				s.changed = func(types.UID) {} // a timer of the inventory calls changed, too
				recorded := members(m.MoRef)
				recorded[0].InstanceUUID = m.InstanceUUID
				s.publish(m)
				course(s, m)
				time.Sleep(unstampedDelay)
				synctest.Wait()
				if got := s.State(web, plan.Query{Recorded: recorded}); len(got.Gone) != 1 || len(got.Vanished) > 0 {
					t.Errorf("gone: %+v, vanished: %+v", got.Gone, got.Vanished)
				}
			})
		})
	}
}
