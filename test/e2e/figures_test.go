package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/bare"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var (
	figures       = flag.Bool("figures", false, "measure, which takes half an hour and an idle machine")
	figuresRounds = flag.Int("figures.rounds", 3, "how often each is measured; the median counts")
	figuresFlags  = flag.String("figures.metacontroller", "--client-go-qps=200 --client-go-burst=400 --workers=10", "Metacontroller's flags")
)

func figuresOf(t *testing.T) *rig {
	t.Helper()
	if !*figures {
		t.Skip("without -figures nothing is measured")
	}
	return life(t)
}

// How long groups take from kubectl apply until the API server's status shows all members ready, and from kubectl delete until they
// are gone, each beside a bare loop with the same slots, and how many vCenter calls that made. Where a vCenter's tasks take no time, a
// deletion takes as long as the API server, Metacontroller, the server and the embedded vCenter need of this machine's processors; the
// bare loop needs only the last. So there are fleets whose tasks take their time, as in a real vCenter, too.
func TestFiguresOfGroupsThatComeAndGo(t *testing.T) {
	r := figuresOf(t)
	fast := vcsim.Latency{Clone: 200 * time.Millisecond, Power: 200 * time.Millisecond}
	lasting := vcsim.Latency{Clone: time.Second, Power: 500 * time.Millisecond, Reconfigure: 100 * time.Millisecond, Other: 250 * time.Millisecond}
	for _, f := range []struct {
		bare.Fleet
		latency vcsim.Latency
	}{
		{bare.Fleet{Groups: 1, Members: 50, Slots: 8}, vcsim.Latency{Clone: time.Second}},
		{bare.Fleet{Groups: 1, Members: 50, Slots: 32}, vcsim.Latency{Clone: time.Second}},
		{bare.Fleet{Groups: 1, Members: 50, Slots: 8}, fast},
		{bare.Fleet{Groups: 20, Members: 5, Slots: 8}, fast},
		{bare.Fleet{Groups: 100, Members: 2, Slots: 8}, fast},
		{bare.Fleet{Groups: 200, Members: 2, Slots: 8}, fast},
		{bare.Fleet{Groups: 100, Members: 2, Slots: 8}, vcsim.Latency{Clone: fast.Clone}},
		{bare.Fleet{Groups: 200, Members: 2, Slots: 8}, vcsim.Latency{Clone: fast.Clone}},
		{bare.Fleet{Groups: 1, Members: 60, Slots: 8}, lasting},
		{bare.Fleet{Groups: 30, Members: 5, Slots: 8}, lasting},
		{bare.Fleet{Groups: 75, Members: 2, Slots: 8}, lasting},
		{bare.Fleet{Groups: 75, Members: 2, Slots: 32}, lasting},
	} {
		name := fmt.Sprintf("%d-of-%d-in-%d-slots-power-%s", f.Groups, f.Members, f.Slots, f.latency.Power)
		t.Run(name, func(t *testing.T) {
			r.at(t, f.latency, f.Slots, upToThousand)
			var up, down, upRatio, downRatio, upCalls, downCalls []float64
			members := float64(f.Groups * f.Members)
			for round := range *figuresRounds {
				bareUp, bareDown := bareFigures(t, f.Fleet, f.latency)
				its := r.follow(t, fmt.Sprintf("%s-%d", name, round))
				before := r.traffic(t)
				began := its.apply(t, f.Groups, f.Members)
				its.running(t, f.Groups, f.Members, 10*time.Minute)
				ourUp := time.Since(began)
				middle := r.traffic(t)
				upCalls = append(upCalls, float64(middle.vims-before.vims)/members)
				t.Logf("up: %.1f s, vCenter done after %.1f s, bare %.1f s; %s", ourUp.Seconds(), r.lastDone(t, "PowerOn").Sub(began).Seconds(), bareUp.Seconds(), middle.since(before))
				t.Logf("vCenter calls a member: %s", middle.each(before, members))
				time.Sleep(5 * time.Second) // what follows an answer is written
				middle, began = r.traffic(t), its.remove(t, f.Groups)
				its.gone(t, 10*time.Minute)
				ourDown := time.Since(began)
				end := r.traffic(t)
				t.Logf("down: %.1f s, vCenter done after %.1f s, bare %.1f s; %s", ourDown.Seconds(), r.lastDone(t, "ConfirmGone").Sub(began).Seconds(), bareDown.Seconds(), end.since(middle))
				t.Logf("vCenter calls a member: %s", end.each(middle, members))
				downCalls = append(downCalls, float64(end.vims-middle.vims)/members)
				up, down = append(up, ourUp.Seconds()), append(down, ourDown.Seconds())
				upRatio, downRatio = append(upRatio, ourUp.Seconds()/bareUp.Seconds()), append(downRatio, ourDown.Seconds()/bareDown.Seconds())
			}
			t.Logf("FIGURE %d groups of %d, %d slots, clones of %s, power-offs of %s: up %.1f s, %.2f times a bare loop, %.1f vCenter calls a member; down %.1f s, %.2f times, %.1f calls", f.Groups, f.Members, f.Slots,
				f.latency.Clone, f.latency.Power, median(up), median(upRatio), median(upCalls), median(down), median(downRatio), median(downCalls))
		})
	}
}

func bareFigures(t *testing.T, f bare.Fleet, latency vcsim.Latency) (up, down time.Duration) {
	t.Helper()
	vc, err := vcsim.Start(vcsim.Config{Latency: latency})
	if err != nil {
		t.Fatal(err)
	}
	defer vc.Close() //nolint:errcheck // the measurement is over
	if up, err = f.BringUp(context.Background(), bare.At(vc)); err != nil {
		t.Fatal(err)
	}
	if down, err = f.TakeDown(context.Background(), bare.At(vc)); err != nil {
		t.Fatal(err)
	}
	return up, down
}

// How long it takes until the status shows what vCenter has: an operator destroys a member of a settled group; the status names it no
// more; its replacement is on; the status has that one, and is RUNNING.
func TestFiguresOfTheStatusLag(t *testing.T) {
	r := figuresOf(t)
	for _, groups := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(groups), func(t *testing.T) {
			r.at(t, vcsim.Latency{Clone: time.Second, Power: 200 * time.Millisecond}, 8, upToThousand)
			its := r.follow(t, fmt.Sprintf("lag-%d", groups))
			its.apply(t, groups, 2)
			its.running(t, groups, 2, 10*time.Minute)
			time.Sleep(time.Minute) // settled
			var lost, back []float64
			for round := range 5 {
				name := fmt.Sprintf("web-%d", round%groups)
				was := its.member(name)
				began := time.Now()
				r.destroy(t, was)
				var on time.Time
				done := make(chan struct{})
				go func() { defer close(done); on = r.poweredOn(t, its.namespace, name, was) }()
				its.until(t, "without the member", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
					return all[name].Status.Phase != v1alpha1.PhaseRunning || moRefOf(all[name], 0) != was
				})
				lost = append(lost, time.Since(began).Seconds())
				its.until(t, "RUNNING again", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
					g := all[name]
					return g.Status.Phase == v1alpha1.PhaseRunning && g.Status.ReadyReplicas == 2 && moRefOf(g, 0) != was
				})
				shown := time.Now()
				<-done
				back = append(back, shown.Sub(on).Seconds())
				time.Sleep(5 * time.Second)
			}
			t.Logf("FIGURE %d groups: the status shows that a member is lost after %.1f s (at most %.1f), and that its replacement is on after %.1f s (at most %.1f)",
				groups, median(lost), slices.Max(lost), median(back), slices.Max(back))
			its.remove(t, groups)
			its.gone(t, 10*time.Minute)
		})
	}
}

// member is the moRef of a group's first member.
func (f *followed) member(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return moRefOf(f.groups[name], 0)
}

// moRefOf is the moRef of the member of an ordinal, if there is one.
func moRefOf(g *v1alpha1.VmGroup, ordinal int32) string {
	for _, m := range g.Status.Members {
		if m.Ordinal == ordinal {
			return m.MoRef
		}
	}
	return ""
}

// poweredOn waits until a group's first member is on in vCenter, and another VM than it was, and returns when.
func (r *rig) poweredOn(t *testing.T, namespace, name, was string) time.Time {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if vm := r.vms(t, namespace, name)[name+"-0"]; vm.Runtime.PowerState == "poweredOn" && vm.Self.Value != was {
			return time.Now()
		}
	}
	return time.Time{}
}

// How long many groups of one take that are applied at once, and what is asked and written while they are settled, and while they are
// rolled.
func TestFiguresOfManyGroups(t *testing.T) {
	r := figuresOf(t)
	const slots = 8
	for _, groups := range []int{100, 2000} {
		t.Run(fmt.Sprint(groups), func(t *testing.T) {
			latency := vcsim.Latency{Clone: time.Second}
			size := upToThousand
			if groups > 1000 {
				size = more
			}
			r.at(t, latency, slots, size)
			its := r.follow(t, fmt.Sprintf("many-%d", groups))
			before := r.traffic(t)
			began := its.apply(t, groups, 1)
			its.running(t, groups, 1, 30*time.Minute)
			up, bound := time.Since(began), time.Duration(groups)*latency.Clone/slots
			t.Logf("FIGURE %d groups of one applied at once: %.0f s, %.2f times the bound of %.0f s; %s", groups, up.Seconds(), up.Seconds()/bound.Seconds(), bound.Seconds(),
				r.traffic(t).since(before))
			time.Sleep(time.Minute)
			before = r.traffic(t)
			time.Sleep(time.Minute)
			t.Logf("FIGURE %d settled groups: %s", groups, r.traffic(t).since(before))
			if groups > 100 {
				return // they stay until the cluster ends
			}
			before, began = r.traffic(t), time.Now()
			its.roll(t, groups)
			its.running(t, groups, 1, 10*time.Minute)
			rolled := time.Since(began)
			t.Logf("FIGURE %d groups roll: %.0f s, %.2f times the bound of %.1f s; %s", groups, rolled.Seconds(), rolled.Seconds()/bound.Seconds(), bound.Seconds(),
				r.traffic(t).since(before))
			its.remove(t, groups)
			its.gone(t, 10*time.Minute)
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
