package main

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// joined returns a text without the line breaks and indents of a table.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestPlanAndCheckSayTheSameOfWhatIsProbablyNotMeant(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{Hosts: 2}) // of 512 GiB and 64 logical CPUs, with a datastore of 2 TB
	const head = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web, namespace: shop}\nspec: {template: vm-operator-template, "
	const ranges = "networks: [{network: VM Network, ipv4: {ranges: [10.0.0.10-10.0.0.29], prefixLength: 24}}]"
	for spec, want := range map[string]string{
		"cpu: 2, memory: 4, replicas: 3":                                                 "",
		"cpu: 2, memory: 4096, replicas: 1":                                              "spec.memory is in GiB, so 4096 is 4 TiB for each member",
		"cpu: 2, memory: 600, replicas: 1":                                               "a member has 600 GiB of memory, and the largest host of DC0_C0 has 512 GiB",
		"cpu: 65, memory: 4, replicas: 1":                                                "a member has 65 CPUs, and the largest host of DC0_C0 has 64 logical CPUs",
		"cpu: 2, memory: 128, replicas: 9":                                               "9 members have 1152 GiB (1.12 TiB) of memory together, and the hosts of DC0_C0 have 1024 GiB (1 TiB)",
		"cpu: 2, memory: 128, replicas: 8":                                               "", // just room enough
		"cpu: 2, memory: 4, replicas: 3, disks: [{name: data, sizeGiB: 900}]":            "3 more take up to 2742 GiB (2.68 TiB) for disks and swap files, and the datastore LocalDS_0 has",
		"cpu: 2, memory: 4, replicas: 3, hardware: {reserveAllMemory: true}":             "",
		"cpu: 2, memory: 300, replicas: 4, hardware: {reserveAllMemory: true}":           "4 more reserve 1200 GiB (1.17 TiB) of memory, and the resource pool Resources of DC0_C0 has 1024 GiB (1 TiB) to reserve",
		"cpu: 2, memory: 4, replicas: 20, update: {maxSurge: 2}, " + ranges:              "spec.networks has static addresses for 20 members, and an update has up to 22 (AddressesExhausted)",
		"cpu: 2, memory: 4, replicas: 20, update: {maxSurge: 0}, " + ranges:              "",
		"cpu: 2, memory: 4, service: {}, networks: [{network: VM Network, dhcp: false}]": "no adapter of spec.networks gets an address, and readiness or service needs one",
	} {
		out, errs, _ := preview(t, against(vc), head+spec+"}\n")
		c := vmgroup(against(vc), "check", "-f", "-")
		c.Stdin = strings.NewReader(head + spec + "}\n")
		checked, _, _ := run(t, c)
		if planned := joined(out); (strings.Contains(planned, "warning: ") != (want != "")) || !strings.Contains(planned, want) {
			t.Errorf("%s: plan says\n%s%s\nwant %q", spec, out, errs, want)
		}
		_, of, _ := strings.Cut(joined(checked), "group shop/web")
		if of, _, _ = strings.Cut(of, " privileges "); strings.Contains(of, " WARN ") != (want != "") || !strings.Contains(of, want) {
			t.Errorf("%s: check says\n%s\nwant %q", spec, checked, want)
		}
	}
}

func TestThePlanOfAnUpdateOf20MembersIsShortAndSaysWhatChanges(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "shop", "web", "uid-web", 20)
	if _, err := g.Until(t.Context(), metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit   func(*v1alpha1.VmGroupSpec)
		change string
		steps  int
	}{
		{func(s *v1alpha1.VmGroupSpec) { s.Memory, s.Update.Resize = 600, v1alpha1.ResizeInPlace }, "warning: a member has 600 GiB of memory, and the largest host of DC0_C0 has 512 GiB", 9},
		{func(s *v1alpha1.VmGroupSpec) { s.Memory, s.Update.Resize = 32, v1alpha1.ResizeInPlace }, "warning: 20 members have 640 GiB of memory together, and the hosts of DC0_C0 have 512 GiB", 9},
		{func(s *v1alpha1.VmGroupSpec) { s.Memory, s.Update.Resize = 8, v1alpha1.ResizeInPlace }, "change: spec.memory: 8 GiB instead of 4 GiB\n", 9},
		{func(s *v1alpha1.VmGroupSpec) {
			s.RootDisk, s.Clone.Mode = nil, v1alpha1.CloneFull // as it is
			s.Hardware.Version = 19
			s.Update.MaxSurge, s.Update.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(0))
		}, "change: spec.hardware.version: 19 instead of not set\n", 13},
		{func(s *v1alpha1.VmGroupSpec) { s.Template = "/DC0/vm/vm-operator-template" }, "change: spec.template: /DC0/vm/vm-operator-template instead of vm-operator-template\n", 13},
	} {
		edited := g.VmGroup.DeepCopy()
		edited.Generation, edited.Status = 0, v1alpha1.VmGroupStatus{}
		c.edit(&edited.Spec)
		manifest, err := json.Marshal(edited)
		must.Succeed(t, err)
		out, errs, status := preview(t, against(vc), string(manifest), "--server", p.url)
		_, steps, _ := strings.Cut(out, "ROUND")
		steps, _, _ = strings.Cut(steps, "\n\n")
		if lines := strings.Count(steps, "\n"); status != 2 || !strings.Contains(out, c.change) || lines > c.steps || strings.Contains(out, "clone.mode") {
			t.Errorf("exit status %d, %d lines of steps, want at most %d, and %q:\n%s%s", status, lines, c.steps, c.change, out, errs)
		}
	}
}

func TestThePlanTableShowsRoundsThatRepeatOnce(t *testing.T) {
	t.Parallel()
	round := func(n int, op, vm string) hook.PlanStep { return hook.PlanStep{Round: n, Op: op, VM: vm, Reason: "r"} }
	for name, c := range map[string]struct {
		steps []hook.PlanStep
		want  []string
	}{
		"twice is shown": {[]hook.PlanStep{round(1, "A", "0"), round(2, "B", "0"), round(3, "A", "1"), round(4, "B", "1")}, []string{"1 A 0 r", "2 B 0 r", "3 A 1 r", "4 B 1 r"}},
		"three times": {[]hook.PlanStep{round(1, "A", "0"), round(2, "B", "0"), round(3, "A", "1"), round(4, "B", "1"), round(5, "A", "2"), round(6, "B", "2"), round(7, "C", "2")},
			[]string{"1 A 0 r", "2 B 0 r", "3-6 the same 1, 2 as in the rounds before", "7 C 2 r"}},
		"a round isn't cut": {[]hook.PlanStep{round(1, "A", "0"), round(1, "B", "1"), round(1, "A", "2"), round(1, "B", "3"), round(1, "A", "4"), round(1, "B", "5")},
			[]string{"1 A 0 r", "1 B 1 r", "1 A 2 r", "1 B 3 r", "1 A 4 r", "1 B 5 r"}},
	} {
		var out strings.Builder
		must.Succeed(t, planTable(&out, []hook.PlanAnswer{{Group: "shop/web", Steps: c.steps}}))
		_, rest, _ := strings.Cut(out.String(), "REASON\n")
		rest, _, _ = strings.Cut(rest, "\n\n")
		if got := strings.Split(rest, "\n"); len(got) != len(c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, rest, strings.Join(c.want, "\n"))
		} else {
			for i := range got {
				if joined(got[i]) != c.want[i] {
					t.Errorf("%s: got %q, want %q", name, got[i], c.want[i])
				}
			}
		}
	}
}
