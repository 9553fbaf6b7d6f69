package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/bare"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	figures       = flag.Bool("figures", false, "measure, which takes a quarter of an hour and an idle machine")
	figuresRounds = flag.Int("figures.rounds", 3, "how often each ratio is measured; the median counts")
	figuresApart  = flag.Bool("figures.apart", false, "give etcd, the API server, its controllers and Metacontroller the lowest priority, as if they had processors of their own")
	figuresFlags  = flag.String("figures.metacontroller", "--client-go-qps=200 --client-go-burst=400 --workers=10", "Metacontroller's flags")
)

func figuresOf(t *testing.T) *rig {
	t.Helper()
	if !*figures {
		t.Skip("without -figures nothing is measured")
	}
	cluster.Apart = *figuresApart
	return life(t)
}

// figure is a row of the table that is printed at the end: what was measured, the value with each vCenter, and the greatest allowed value.
type figure struct {
	what string
	most float64
	seen map[string]float64
}

type figureTable []*figure

func (f *figureTable) note(k kind, what string, most, seen float64) {
	i := slices.IndexFunc(*f, func(row *figure) bool { return row.what == what })
	if i < 0 {
		i = len(*f)
		*f = append(*f, &figure{what, most, map[string]float64{}})
	}
	(*f)[i].seen[k.name] = seen
}

func (f *figureTable) write(all []kind) string {
	var text strings.Builder
	text.WriteString("\n| figure | at most |")
	for _, k := range all {
		text.WriteString(" " + k.name + " |")
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, row := range *f {
		fmt.Fprintf(&text, "| %s | %g |", row.what, row.most)
		for _, k := range all {
			seen, measured := row.seen[k.name]
			switch {
			case !measured:
				text.WriteString(" – |")
			case seen > row.most:
				fmt.Fprintf(&text, " **%.2f** |", seen)
			default:
				fmt.Fprintf(&text, " %.2f |", seen)
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// The test measures the speed that users see in the API server's objects, through a real Metacontroller: with the embedded vCenter and
// with govmomi's plain simulator, each in a process of its own, or with the vCenter of FIGURES_VCENTER. Ratios are to a bare loop with the
// same slots and the same vCenter, right before.
func TestFigures(t *testing.T) {
	r := figuresOf(t)
	all := kinds
	if os.Getenv(figuresVCenter) != "" {
		all = []kind{{name: "given", events: true}}
	}
	var rows figureTable
	defer func() { fmt.Print(rows.write(all)) }()
	const second, fifth = time.Second, time.Second / 5
	for _, k := range all {
		t.Run(k.name, func(t *testing.T) {
			fifty := func(slots int) func(*testing.T) {
				return func(t *testing.T) {
					up, _, calls, _ := r.besideBare(t, bare.Fleet{Groups: 1, Members: 50, Slots: slots}, r.vcenterOf(t, k, second, 0))
					rows.note(k, fmt.Sprintf("50 members, clones of 1 s, %d slots: times a bare loop", slots), 1.25, up)
					rows.note(k, fmt.Sprintf("their calls of vCenter a member, %d slots", slots), 6, calls)
				}
			}
			t.Run("fifty-8", fifty(8))
			t.Run("fifty-32", fifty(32))
			pairs := func(slots int) func(*testing.T) {
				return func(t *testing.T) {
					up, down, upCalls, downCalls := r.besideBare(t, bare.Fleet{Groups: 200, Members: 2, Slots: slots}, r.vcenterOf(t, k, fifth, fifth))
					rows.note(k, fmt.Sprintf("200 groups of 2, clones and power operations of 0.2 s, %d slots, created: times a bare loop", slots), 1.5, up)
					rows.note(k, fmt.Sprintf("deleted, %d slots: times a bare loop", slots), 1.5, down)
					rows.note(k, fmt.Sprintf("calls of vCenter a member to bring it up, %d slots", slots), 6, upCalls)
					rows.note(k, fmt.Sprintf("calls of vCenter a member to remove it, %d slots", slots), 6, downCalls)
				}
			}
			t.Run("pairs", pairs(8))
			t.Run("pairs-32", pairs(32))
			t.Run("behind", func(t *testing.T) {
				rows.note(k, "a group of 1 applied right after a group of 50, 8 slots: times a bare clone of 1 s", 2, r.behindFifty(t, r.vcenterOf(t, k, second, 0)))
			})
			t.Run("settled", func(t *testing.T) { r.settledFigures(t, &rows, k, r.vcenterOf(t, k, fifth, fifth)) })
		})
	}
}

// besideBare measures how long groups take from kubectl apply until the status shows all members ready, and from kubectl delete until they
// are gone, each as a multiple of a bare loop's time, and counts the vCenter calls per member. The server starts anew for each round.
func (r *rig) besideBare(t *testing.T, f bare.Fleet, u *url.URL) (up, down, upCalls, downCalls float64) {
	t.Helper()
	var ups, downs, callsUp, callsDown []float64
	for range *figuresRounds {
		r.server.Kill() // otherwise the server would read the changes of the bare loop
		r.rest(t)
		bareUp, err := f.BringUp(context.Background(), bare.At(u))
		must.Succeed(t, err)
		r.rest(t)
		bareDown, err := f.TakeDown(context.Background(), bare.At(u))
		must.Succeed(t, err)
		r.at(t, u, f.Slots, upToThousand)
		r.rest(t)
		its := r.follow(t)
		members := float64(f.Groups * f.Members)

		before := r.traffic(t)
		began := its.apply(t, f.Groups, f.Members)
		its.running(t, f.Groups, f.Members, 10*time.Minute)
		took, middle := time.Since(began), r.traffic(t)
		t.Logf("up: %.1f s, vCenter done after %.1f s, bare %.1f s; %s", took.Seconds(), r.lastDone(t, "PowerOn").Sub(began).Seconds(), bareUp.Seconds(), middle.since(before))
		t.Logf("vCenter calls a member: %s", middle.each(before, members))
		ups, callsUp = append(ups, took.Seconds()/bareUp.Seconds()), append(callsUp, float64(middle.vims()-before.vims())/members)

		time.Sleep(5 * time.Second) // until Metacontroller has written the last answer
		r.rest(t)
		middle, began = r.traffic(t), its.remove(t)
		its.gone(t, 10*time.Minute)
		took, end := time.Since(began), r.traffic(t)
		t.Logf("down: %.1f s, vCenter done after %.1f s, bare %.1f s; %s", took.Seconds(), r.lastDone(t, "ConfirmGone").Sub(began).Seconds(), bareDown.Seconds(), end.since(middle))
		t.Logf("vCenter calls a member: %s", end.each(middle, members))
		downs, callsDown = append(downs, took.Seconds()/bareDown.Seconds()), append(callsDown, float64(end.vims()-middle.vims())/members)
	}
	return median(ups), median(downs), median(callsUp), median(callsDown)
}

// behindFifty measures how long a group of one takes that is applied right after a group of fifty, as a multiple of a bare clone's time.
func (r *rig) behindFifty(t *testing.T, u *url.URL) float64 {
	t.Helper()
	r.server.Kill()
	one := bare.Fleet{Groups: 1, Members: 1, Slots: 1}
	clone, err := one.BringUp(context.Background(), bare.At(u))
	must.Succeed(t, err)
	if _, err := one.TakeDown(context.Background(), bare.At(u)); err != nil {
		t.Fatal(err)
	}
	r.at(t, u, 8, upToThousand)
	its := r.follow(t)
	var took []float64
	for round := range *figuresRounds {
		small := fmt.Sprintf("small-%d", round)
		its.create(t, fmt.Sprintf("large-%d", round), 50)
		began := time.Now()
		its.create(t, small, 1)
		its.until(t, "up beside a large one", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool { return all[small] != nil && isUp(all[small], 1) })
		took = append(took, time.Since(began).Seconds())
		its.remove(t)
		its.gone(t, 10*time.Minute)
	}
	return median(took) / clone.Seconds()
}

// settledFigures measures 100 settled groups, and then how they heal when an operator destroys members one after another.
func (r *rig) settledFigures(t *testing.T, rows *figureTable, k kind, u *url.URL) {
	t.Helper()
	const groups, watched = 100, 20 * time.Second
	r.at(t, u, 8, upToThousand)
	its := r.follow(t)
	its.apply(t, groups, 2)
	its.running(t, groups, 2, 10*time.Minute)
	r.quiet(t)
	r.rest(t)
	before := r.traffic(t)
	time.Sleep(watched)
	after := r.traffic(t)
	t.Logf("settled: %s", after.since(before))
	rows.note(k, "100 settled groups: writes in 20 s", 0, float64(after.writes-before.writes))
	const waits = "WaitForUpdatesEx" // the waits of the stream, which is always open
	rows.note(k, "their calls of vCenter in 20 s, without the waits of the stream", 0, float64(after.vims()-before.vims()-after.methods[waits]+before.methods[waits]))

	client := clientAt(t, k, u)
	var lost, began, back []float64
	for round := range 5 {
		name := fmt.Sprintf("web-%d", round)
		was := its.member(name)
		clones := r.vcenterCalls(t)["CloneVM_Task"]
		destroy(t, client, was)
		destroyed := time.Now()
		cloned := make(chan float64, 1)
		go func() {
			for k.events && r.vcenterCalls(t)["CloneVM_Task"] == clones && time.Since(destroyed) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			cloned <- time.Since(destroyed).Seconds()
		}()
		its.until(t, "without the member", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
			return all[name].Status.Phase != v1alpha1.PhaseRunning || moRefOf(all[name], 0) != was
		})
		lost = append(lost, time.Since(destroyed).Seconds())
		began = append(began, <-cloned)
		if !k.events {
			continue
		}
		its.until(t, "RUNNING again", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
			return isUp(all[name], 2) && moRefOf(all[name], 0) != was
		})
		back = append(back, time.Since(r.lastDone(t, "PowerOn")).Seconds())
		time.Sleep(5 * time.Second)
	}
	t.Logf("lost: the clone began after %.2f s, the status had it after %.2f s, and had the replacement %.2f s after its power-on", began, lost, back)
	rows.note(k, "a member of 100 groups is destroyed: seconds until the status says so, at most", 10, slices.Max(lost))
	if k.events {
		rows.note(k, "seconds until its clone begins, at most", 1, slices.Max(began))
		rows.note(k, "seconds from its power-on until the status says so, at most", 3, slices.Max(back))
	} else { // without events, the server must assume that the lost members still run
		r.kubectl(t, "-n", its.namespace, "annotate", "vg", "--all", "vm.codeconnect.vmworld.com/abandon=true")
	}
	its.remove(t)
	its.gone(t, 10*time.Minute)
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

// The test measures how long 2,000 groups of one take that are applied at once, and the calls and writes while the groups are settled. The
// groups stay until the cluster ends.
func TestFiguresOfThousandsOfGroups(t *testing.T) {
	r := figuresOf(t)
	const groups, slots, clone = 2000, 8, time.Second
	r.at(t, r.vcenterOf(t, kinds[0], clone, 0), slots, more)
	its := r.follow(t)
	before := r.traffic(t)
	began := its.apply(t, groups, 1)
	its.running(t, groups, 1, 30*time.Minute)
	up, bound := time.Since(began), groups*clone/slots
	t.Logf("FIGURE %d groups of one applied at once: %.0f s, %.2f times the bound of %.0f s; %s", groups, up.Seconds(), up.Seconds()/bound.Seconds(), bound.Seconds(), r.traffic(t).since(before))
	time.Sleep(time.Minute)
	before = r.traffic(t)
	time.Sleep(time.Minute)
	t.Logf("FIGURE %d settled groups: %s", groups, r.traffic(t).since(before))
}

// The test measures what groups at rest cost, beyond a cluster without groups, and how late the status of such a group is.
func TestFiguresAtRest(t *testing.T) {
	r := figuresOf(t)
	u := r.vcenterOf(t, kinds[0], 0, 0)
	r.at(t, u, 32, upToThousand)
	measure := func() (traffic, traffic) {
		before := r.traffic(t)
		time.Sleep(5 * time.Minute) // resyncPeriodSeconds: once in this time, Metacontroller calls for all groups
		return before, r.traffic(t)
	}
	r.rest(t)
	before, after := measure()
	idle := after.cores(before)
	t.Logf("FIGURE no groups: %.3f of a core", idle)
	for _, fleet := range []struct {
		groups  int
		service bool
		most    float64 // of a core
	}{{100, false, .1}, {100, true, 1}, {1000, false, .25}} {
		its := r.follow(t)
		its.service = fleet.service
		its.apply(t, fleet.groups, 1)
		its.running(t, fleet.groups, 1, 20*time.Minute)
		time.Sleep(2 * time.Minute)
		before, after := measure()
		t.Logf("FIGURE %d groups at rest, Service: %v: %.3f of a core (%s)", fleet.groups, fleet.service, after.cores(before)-idle, after.since(before))
		if cores := after.cores(before) - idle; cores > fleet.most {
			t.Errorf("%d groups at rest take %.3f of a core", fleet.groups, cores)
		}
		if fleet.groups == 100 && !fleet.service {
			r.lateness(t, its, u)
			r.restarted(t, its, u)
		}
		its.remove(t)
		its.gone(t, 20*time.Minute)
	}
}

// lateness measures how late the status is when an operator destroys members of groups at rest, one after another.
func (r *rig) lateness(t *testing.T, its *followed, u *url.URL) {
	t.Helper()
	client := clientAt(t, kinds[0], u)
	var late []float64
	for round := range 15 {
		name := fmt.Sprintf("web-%d", round)
		was := its.member(name)
		time.Sleep(time.Duration(rand.IntN(9000)) * time.Millisecond)
		destroy(t, client, was)
		destroyed := time.Now()
		its.until(t, "without the member", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
			return all[name].Status.Phase != v1alpha1.PhaseRunning || moRefOf(all[name], 0) != was
		})
		late = append(late, time.Since(destroyed).Seconds())
	}
	slices.Sort(late)
	t.Logf("FIGURE a change in vCenter is in the status after %.1f s, in the median %.1f s", late, median(late))
	if median(late) > 5 {
		t.Errorf("the status is %.1f s late in the median", median(late))
	}
	its.running(t, len(its.groups), 1, 5*time.Minute)
}

// restarted measures when a restarted server heals a group that lost a member while the server was down.
func (r *rig) restarted(t *testing.T, its *followed, u *url.URL) {
	t.Helper()
	client := clientAt(t, kinds[0], u)
	var healed []float64
	for round := range 3 {
		time.Sleep(2 * time.Minute) // until all groups are at rest
		r.server.Kill()
		name := fmt.Sprintf("web-%d", 20+round)
		was := its.member(name)
		destroy(t, client, was)
		time.Sleep(5 * time.Second)
		r.startServer(t, r.serves...)
		began := time.Now()
		its.until(t, "healed", time.Minute, func(all map[string]*v1alpha1.VmGroup) bool {
			now := moRefOf(all[name], 0)
			return now != "" && now != was
		})
		healed = append(healed, time.Since(began).Seconds())
	}
	t.Logf("FIGURE a restarted server has healed the first of 100 groups after %.1f s", healed)
	if slices.Max(healed) > 10 {
		t.Errorf("a restarted server has healed the first of 100 groups after %.1f s", healed)
	}
}

// clientAt logs in, as an operator where vCenter distinguishes accounts: with the server's account, a destroyed VM would look like the work
// of another replica, and the server would react only at the next call.
func clientAt(t *testing.T, k kind, u *url.URL) *govmomi.Client {
	t.Helper()
	by := *u
	if k.name == "embedded" {
		by.User = url.UserPassword("operator", "pass")
	}
	client, err := govmomi.NewClient(context.Background(), &by, true)
	must.Succeed(t, err)
	return client
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
