package test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// stopTools makes VMware Tools fall silent in all members, as an upgrade of open-vm-tools does. Their services run on.
func (r *rig) stopTools() {
	for _, vm := range r.members() {
		r.must(r.SetTools(webFolder+vm.Name, false))
	}
}

// addresses returns the addresses of the members in a status, by the member's name.
func addresses(a metacontroller.Answer) string {
	var all []string
	for _, m := range a.Status.Members {
		all = append(all, m.Name+"="+strings.Join(m.IPs, "+"))
	}
	return strings.Join(all, " ")
}

// targets returns the targets in the answer to GET /sd.
func (r *rig) targets(t *testing.T, g *metacontroller.Group) (all []string) {
	t.Helper()
	answer, err := (&http.Client{Transport: r.transport}).Get(g.URL + "/sd")
	must.Succeed(t, err)
	defer func() { _ = answer.Body.Close() }()
	var groups []struct{ Targets []string }
	must.Succeed(t, json.NewDecoder(answer.Body).Decode(&groups))
	for _, one := range groups {
		all = append(all, one.Targets...)
	}
	slices.Sort(all)
	return all
}

// While VMware Tools are silent, as during their upgrade, members keep their addresses, endpoints and targets, and the server heals no member.
// The same holds for a replica that has just started, and knows the addresses only from the status.
func TestWhileToolsAreSilentMembersKeepTheirAddressesAndAreNotHealed(t *testing.T) {
	t.Parallel()
	kinds := map[string]v1alpha1.Readiness{
		"PoweredOn":    {},
		"ToolsRunning": {Check: v1alpha1.ReadyToolsRunning},
		"GuestIP":      {Check: v1alpha1.ReadyGuestIP},
		"httpGet":      {Check: v1alpha1.ReadyGuestIP, HTTPGet: &v1alpha1.HTTPGet{Port: 8080}},
	}
	for i, name := range slices.Sorted(maps.Keys(kinds)) {
		if leftOut(i) {
			continue
		}
		readiness := kinds[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, g := answering(t)
				g.Spec.Readiness = readiness
				g.Spec.Readiness.TimeoutSeconds = seconds(60)
				g.Spec.Service = &v1alpha1.Service{}
				a := until(t, g, "all members are up and have addresses", func(a metacontroller.Answer) bool {
					return a.Status.Phase == v1alpha1.PhaseRunning && a.Status.ReadyReplicas == 3 && strings.Count(addresses(a), "=10.") == 3
				})
				was, vms, targets := addresses(a), refs(r.members()), r.targets(t, g)
				if len(targets) != 3 {
					t.Fatalf("/sd lists the targets %v; want 3 of them", targets)
				}
				same := func(a metacontroller.Answer) bool {
					return addresses(a) == was && a.Status.ReadyReplicas == 3 && slices.Equal(endpoints(t, g), []string{"web-0 ready", "web-1 ready", "web-2 ready"})
				}
				r.stopTools()
				stopped := time.Now()
				syncFor(t, g, 20*time.Minute, "ready at the addresses of before", same)
				a = mustSync(t, g)
				if m := a.Status.Members[0]; m.Reason != "ToolsSilent" {
					t.Errorf("web-0 has the reason %s, want ToolsSilent: %s", m.Reason, m.Message)
				}
				if c := condition(a, v1alpha1.ConditionToolsSilent); c.Status != "True" || c.Message != "web-0, web-1, web-2" || c.LastTransitionTime.Sub(stopped).Abs() > time.Minute ||
					!strings.Contains(a.Status.LastMessage, "VMware Tools are silent in web-0, web-1, web-2") {
					t.Errorf("Tools fell silent at %s: %+v; %s", stopped, c, a.Status.LastMessage)
				}
				g.URL = r.serve().url
				syncFor(t, g, 20*time.Minute, "the same after a restart of the server", same)
				if got := r.targets(t, g); !slices.Equal(got, targets) {
					t.Errorf("/sd lists the targets %v, not %v", got, targets)
				}
				r.sameVMs(vms)
				if n := r.Calls()["ResetVM_Task"]; n > 0 {
					t.Errorf("%d resets, want none", n)
				}
				// The server drops an address only on evidence: the VM is off, or its guest has reported no address yet since its next boot.
				r.must(r.PowerOff(webFolder + "web-1"))
				until(t, g, "web-1 has none", func(a metacontroller.Answer) bool { return len(a.Status.Members[1].IPs) == 0 })
				if readiness.Check != "" { // by default, a member is ready without an address
					up(t, g)
				}
			})
		})
	}
}

func mustSync(t *testing.T, g *metacontroller.Group) metacontroller.Answer {
	t.Helper()
	a, err := g.Sync(within(t))
	must.Succeed(t, err)
	return a
}

// While Tools are silent, the probe decides whether a member is ready. The probe uses the address that Tools reported last.
func TestWhileToolsAreSilentTheProbeStillFindsAServiceThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		up(t, g)
		was := refs(r.members())
		r.stopTools()
		syncFor(t, g, 5*time.Minute, "ready", func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 3 })
		r.StopService(was["web-1"], true)
		a := until(t, g, "web-1 is not ready", notReady(1))
		if m := a.Status.Members[1]; m.Reason != "NotAnswering" {
			t.Errorf("web-1 has the reason %s, want NotAnswering: %s", m.Reason, m.Message)
		}
		until(t, g, "web-1 is reset", func(metacontroller.Answer) bool { return r.Calls()["ResetVM_Task"] == 1 })
	})
}

// Members of a template that ignores the addresses from spec.networks have other addresses. None of them is ready, so the update stops at its first
// member, and the message says what to check.
func TestAnUpdateToATemplateThatIgnoresGuestinfoStops(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for _, check := range []v1alpha1.ReadinessCheck{v1alpha1.ReadyPoweredOn, v1alpha1.ReadyGuestIP} {
		t.Run(string(check), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true, IP: 5 * time.Second})
				g := r.serve().group("web", 3)
				g.Spec.Readiness = v1alpha1.Readiness{Check: check, TimeoutSeconds: seconds(120)}
				g.Spec.Update = v1alpha1.Update{MaxSurge: number(0), MaxUnavailable: number(1), ProgressDeadlineSeconds: seconds(600)}
				g.Spec.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.9.5.10-10.9.5.20"}, PrefixLength: 24}}}
				up(t, g)
				was := refs(r.members())
				r.Behave(func(b *vcsim.Behavior) { b.IgnoreGuestinfo = func(vcsim.VM) bool { return true } })
				g.Edit(func(s *spec) { s.Template = otherTemplate })
				a := until(t, g, "the update stops", func(a metacontroller.Answer) bool {
					return condition(a, v1alpha1.ConditionUpdateHeld).Status == "True"
				})
				syncFor(t, g, time.Hour, "stopped", func(a metacontroller.Answer) bool {
					return a.Status.Phase == v1alpha1.PhaseError && a.Status.ReadyReplicas == 2
				})
				same := 0
				for name, ref := range refs(r.members()) {
					if was[name] == ref {
						same++
					}
				}
				a = mustSync(t, g)
				if same != 2 || !strings.Contains(a.Status.LastMessage, "cloud-init") {
					t.Errorf("%d members as before: %s; want 2 and %q in the text", same, a.Status.LastMessage, "cloud-init")
				}
				for _, m := range a.Status.Members {
					if m.Ready != (was[m.Name] == m.MoRef) || !m.Ready && (m.Reason != "AddressNotTaken" || !strings.Contains(m.Message, "10.9.5.1")) {
						t.Errorf("%s: ready %t, %s: %s", m.Name, m.Ready, m.Reason, m.Message)
					}
				}
				if n := r.Calls()["ResetVM_Task"]; n > 0 {
					t.Errorf("%d resets, want none", n)
				}
			})
		})
	}
}

// A virtual IP that two members report, docker0's address, and an address that can't be used yet don't become endpoints.
func TestTheEndpointOfAMemberIsItsOwnAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		g.Scale(2)
		g.Spec.Readiness, g.Spec.Service = v1alpha1.Readiness{Check: v1alpha1.ReadyGuestIP}, &v1alpha1.Service{}
		up(t, g)
		for i, own := range []string{"10.0.0.20", "10.0.0.21"} {
			name := webFolder + []string{"web-0", "web-1"}[i]
			r.must(r.StartDocker(name))
			r.must(r.Report(name, "10.0.0.5",
				types.NetIpConfigInfoIpAddress{IpAddress: "10.0.0.9", PrefixLength: 24, State: "tentative"},
				types.NetIpConfigInfoIpAddress{IpAddress: "10.0.0.5", PrefixLength: 32, State: "preferred"},
				types.NetIpConfigInfoIpAddress{IpAddress: own, PrefixLength: 24, State: "preferred"}))
		}
		a := until(t, g, "the members have their own addresses", func(a metacontroller.Answer) bool {
			return addresses(a) == "web-0=10.0.0.20+10.0.0.5 web-1=10.0.0.21+10.0.0.5"
		})
		if c := condition(a, v1alpha1.ConditionDuplicateAddress); c.Status == "True" {
			t.Errorf("DuplicateAddress is True: %s", c.Message)
		}
	})
}

// A guest can report any number of addresses: a Kubernetes node in IPVS mode, for example, reports an address for each Service.
func TestAMembersAddressesAreBoundedInTheGuestsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := answering(t)
		g.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyGuestIP}
		g.Spec.Service = &v1alpha1.Service{}
		own := up(t, g).Status.Members[0].IPs[0]
		report := []types.NetIpConfigInfoIpAddress{{IpAddress: own, PrefixLength: 9}}
		for i := range 1999 {
			report = append(report, types.NetIpConfigInfoIpAddress{IpAddress: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), PrefixLength: 9})
		}
		report = append(report, types.NetIpConfigInfoIpAddress{IpAddress: "fd00::7", PrefixLength: 64})
		r.must(r.Report(webFolder+"web-0", own, report...))
		want := []string{own, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6", "10.1.0.7", "10.1.0.8", "fd00::7"}
		until(t, g, "the report is seen", func(a metacontroller.Answer) bool { return len(a.Status.Members[0].IPs) > 1 })
		syncFor(t, g, 10*time.Second, "its children are written", func(metacontroller.Answer) bool { return true })
		a := mustSync(t, g)
		if got := a.Status.Members[0].IPs; !slices.Equal(got, want) {
			t.Errorf("the status has %d addresses, of which the first are %q", len(got), got[:min(len(got), 11)])
		}
		answer, err := g.Client.Get(g.URL + "/sd")
		must.Succeed(t, err)
		defer func() { _ = answer.Body.Close() }()
		sd, err := io.ReadAll(answer.Body)
		must.Succeed(t, err)
		all := string(sd)
		for _, child := range a.Children {
			all += "\n" + string(child)
		}
		for text, times := range map[string]int{"10.1.0.8": 2, "fd00::7": 4, "10.1.0.9": 0} { // once each in the ConfigMap and in the EndpointSlice, and fd00::7 also twice in /sd
			if n := strings.Count(all, text); n != times {
				t.Errorf("the children and /sd have %s %d times, in %d bytes; want %d", text, n, len(all), times)
			}
		}
	})
}
