package inventory

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// listLines are the groups in short: "shop/web uid-web: web-0 web-1".
func listLines(groups []plan.Listed) (lines []string) {
	for _, g := range groups {
		line := fmt.Sprintf("%s %s:", g.Ref, g.UID)
		for _, vm := range g.VMs {
			line += " " + vm.Name
		}
		lines = append(lines, line)
	}
	return lines
}

// restamped changes the stamp of a machine.
func restamped(m Machine, change func(*stamp.Stamp)) Machine {
	stamp, err := stamp.Decode(m.StampText)
	if err != nil {
		panic(err)
	}
	change(&stamp)
	m.StampText = stamp.Encode()
	return m
}

func TestTheListHasAllGroupsOfItsClusterByTheirStamps(t *testing.T) {
	t.Parallel()
	s := newFilled()
	named := func(m Machine, namespace, name string) Machine {
		return restamped(m, func(s *stamp.Stamp) { s.Namespace, s.Name = namespace, name })
	}
	elsewhere := restamped(machine("uid-else", 0), func(s *stamp.Stamp) { s.Cluster = "another" })
	kept := restamped(machine("uid-web", 7), func(s *stamp.Stamp) { s.Quarantined = time.Unix(1, 0) })
	onlyKept := restamped(machine("uid-gone", 0), func(s *stamp.Stamp) { s.Quarantined = time.Unix(1, 0) })
	bare := machine("uid-bare", 0)
	bare.StampText = ""
	s.publish(machine("uid-web", 1), machine("uid-web", 0), kept, elsewhere, onlyKept, bare,
		named(machine("uid-db", 0), "shop", "db"), named(machine("uid-a", 0), "bank", "zz"), machine("uid-again", 0))
	groups, known := s.ListGroups("test")
	want := []string{"bank/zz uid-a: web-0", "shop/db uid-db: web-0", "shop/web uid-again: web-0", "shop/web uid-web: web-0 web-1"}
	if got := listLines(groups); fmt.Sprint(got) != fmt.Sprint(want) || !known {
		t.Errorf("the groups are %q, known %v, want %q, true", got, known, want)
	}
	if vms := s.State(web, plan.Query{}).VMs; len(vms) != 3 {
		t.Errorf("the group has %d VMs: the list has changed it; want 3", len(vms))
	}
	if groups, _ := s.ListGroups("another"); len(groups) != 1 || groups[0].UID != "uid-else" {
		t.Errorf("the other cluster's groups are %q, want uid-else alone", listLines(groups))
	}
	if groups, known := s.ListGroups(""); len(groups) != 0 || !known {
		t.Errorf("the groups without a cluster are %q, want none", listLines(groups))
	}
}

func TestAnUnknownListHasTheLastFacts(t *testing.T) {
	t.Parallel()
	empty := New(nil)
	if groups, known := empty.ListGroups("test"); len(groups) != 0 || known {
		t.Errorf("before anything was read: %q, %v", listLines(groups), known)
	}
	s := newFilled()
	s.publish(machine("uid-web", 0))
	s.setUnknown(nil)
	if groups, known := s.ListGroups("test"); len(groups) != 1 || known {
		t.Errorf("the groups are %q, known %v, want the last one, false", listLines(groups), known)
	}
}

func TestTheListFollowsTheVMs(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(machine("uid-web", 0))
	before, _ := s.ListGroups("test")
	on := machine("uid-web", 0)
	on.IPs = []string{"10.0.0.7"}
	s.publish(on)
	if after, _ := s.ListGroups("test"); len(after[0].VMs[0].IPs) != 1 || len(before[0].VMs[0].IPs) != 0 {
		t.Errorf("%+v, and before %+v", after, before)
	}
	s.Publish(Reading{VCenter: "vc", Gone: []string{on.MoRef}})
	if groups, known := s.ListGroups("test"); len(groups) != 0 || !known {
		t.Errorf("after the last VM left, the groups are %q, known %v, want none, true", listLines(groups), known)
	}
}

func BenchmarkList(b *testing.B) {
	s := newFilled()
	for g := range 1000 {
		uid := types.UID(fmt.Sprint("uid-", g))
		for i := range int32(10) {
			s.publish(machine(uid, i))
		}
	}
	for b.Loop() {
		s.ListGroups("test")
	}
}
