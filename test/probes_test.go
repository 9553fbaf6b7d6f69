package test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/probe"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// answering is a group of three whose members are ready while they answer the probe, and are healed after two minutes without an answer.
func answering(t *testing.T, change ...func(*rig)) (*rig, *metacontroller.Group) {
	t.Helper()
	r := newChangeRig(t, vcsim.Guest{Tools: true})
	for _, f := range change {
		f(r)
	}
	g := r.serve().group("web", 3)
	g.Spec.Readiness = v1alpha1.Readiness{HTTPGet: &v1alpha1.HTTPGet{Port: 8080}, TimeoutSeconds: seconds(120)}
	return r, g
}

// syncFor syncs a group for a while, and fails if an answer is not as expected.
func syncFor(t *testing.T, g *metacontroller.Group, d time.Duration, what string, holds func(metacontroller.Answer) bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(5 * time.Second) {
		if a, err := g.Sync(within(t)); err != nil || !holds(a) {
			t.Fatalf("after %s not %s: %v, %s", time.Since(began), what, err, a.Status.LastMessage)
		}
	}
}

func suppressed(a metacontroller.Answer) bool {
	return condition(a, v1alpha1.ConditionProbesSuppressed).Status == "True"
}

func TestNoMemberIsHealedOrTakenOutOfTheServiceWhileThePathToAllIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		g.Spec.Service = &v1alpha1.Service{}
		up(t, g)
		was := refs(r.members())
		r.CutGuests(true)
		until(t, g, "healing is suppressed", func(a metacontroller.Answer) bool {
			if a.Status.ReadyReplicas != 3 {
				t.Fatalf("%d are ready, want 3: %s", a.Status.ReadyReplicas, a.Status.LastMessage)
			}
			return suppressed(a)
		})
		g.Edit(func(s *spec) { s.Template = otherTemplate })
		syncFor(t, g, 20*time.Minute, "as before", func(a metacontroller.Answer) bool { return suppressed(a) && a.Status.ReadyReplicas == 3 })
		r.sameVMs(was)
		if calls := r.Calls(); calls["ResetVM_Task"]+calls["ShutdownGuest"]+calls["PowerOffVM_Task"] > 0 || calls["CloneVM_Task"] != 3 {
			t.Errorf("want three clones, and no reset, shutdown or power-off: %v", calls)
		}
		r.CutGuests(false)
		a := up(t, g)
		if suppressed(a) {
			t.Error("healing is still suppressed after the path was mended")
		}
		r.allGone(was)
		if n := r.Calls()["ResetVM_Task"]; n > 0 {
			t.Errorf("%d resets after the path was mended; want none", n)
		}
	})
}

func TestARestartOfTheServerMakesNoMemberUnready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		up(t, g)
		was := refs(r.members())
		for _, cut := range []bool{false, true} {
			r.CutGuests(cut)
			g.URL = r.serve().url
			syncFor(t, g, 5*time.Minute, "ready", func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 3 })
		}
		r.sameVMs(was)
	})
}

func TestMembersOutsideTheProbedNetworksStayAsReadyAsTheyWere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		up(t, g)
		r.probed = probe.Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		g.URL = r.serve().url
		g.Scale(4)
		a := until(t, g, "the fourth is refused", func(a metacontroller.Answer) bool {
			return len(a.Status.Members) == 4 && strings.Contains(a.Status.Members[3].Message, "--probe-networks")
		})
		if c := condition(a, v1alpha1.ConditionProbesSuppressed); a.Status.ReadyReplicas != 3 || c.Reason != "ProbeRefused" {
			t.Errorf("%d ready, %s: %s; want 3 and %s", a.Status.ReadyReplicas, c.Reason, c.Message, "ProbeRefused")
		}
	})
}

func TestAServerThatCanProbeNoMemberSaysSoBeforeThereAreMembers(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.probed = probe.Networks{}
		g := r.serve().group("web", 3)
		g.Spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
		until(t, g, "it says so", func(a metacontroller.Answer) bool {
			return len(a.Status.Members) == 0 && strings.Contains(a.Status.LastMessage, "--probe-networks")
		})
		g.Edit(func(s *spec) { s.Readiness.TCPSocket = nil })
		up(t, g)
	})
}

// Each replica probes the members by itself. If one replica doesn't reach a member that answers the other, the status alternates between what the two
// replicas see. No replica heals the member, because each successful probe of the other restarts the time-out.
func TestAMemberThatOnlyOneReplicaReachesIsNotHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		up(t, g)
		one, lost := g.URL, r.vmAddress(t, "web-1")
		r.dialGuest = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, lost+":") {
				return nil, &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}
			}
			return r.DialGuest(ctx, network, address)
		}
		other := r.serve().url
		for n := range 30 * 12 {
			g.URL = []string{one, other}[n%2]
			a, err := g.Sync(within(t))
			must.Succeed(t, err)
			if a.Status.ReadyReplicas < 2 {
				t.Fatalf("%d are ready; want at least 2", a.Status.ReadyReplicas)
			}
			time.Sleep(5 * time.Second)
		}
		if calls := r.Calls(); calls["ResetVM_Task"]+calls["PowerOffVM_Task"] > 0 {
			t.Errorf("want no reset and no power-off: %v", calls)
		}
	})
}

func (r *rig) vmAddress(t *testing.T, name string) string {
	t.Helper()
	for _, vm := range r.members() {
		if vm.Name == name && vm.IP != "" {
			return vm.IP
		}
	}
	t.Fatalf("%s has no address", name)
	return ""
}
