package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// legacyVMs creates VMs in /DC0/vm/legacy that run, with 2 CPUs and 4 GiB, or twice as much if they are large.
func legacyVMs(t *testing.T, vc *vcsim.VCenter, large func(name string) bool, names ...string) {
	t.Helper()
	_, err := vc.MakeFolder("/DC0/vm/legacy")
	must.Succeed(t, err)
	for _, name := range names {
		_, err := vc.AddVM("/DC0/vm/legacy", name)
		must.Succeed(t, err)
		size := types.VirtualMachineConfigSpec{NumCPUs: 2, MemoryMB: 4096}
		if large(name) {
			size.NumCPUs, size.MemoryMB = 4, 8192
		}
		must.Succeed(t, vc.Reconfigure("/DC0/vm/legacy/"+name, size))
		must.Succeed(t, vc.PowerOn("/DC0/vm/legacy/"+name))
	}
}

// adoptPage are the blocks of docs/adopt.md: each command with the output that follows it, and the group.
func adoptPage(t *testing.T) (commands map[string]string, group string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/adopt.md")
	must.Succeed(t, err)
	commands = map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?").FindAllStringSubmatch(string(text), -1) {
		commands[m[1]] = m[2]
	}
	return commands, regexp.MustCompile("(?s)```yaml\n(.*?)```\n").FindStringSubmatch(string(text))[1]
}

// That the VMs get their names and folders back: TestAdoptedVMsBecomeMembersWithoutARestartAndReturnToTheirFolders.
func TestThePageTakes40VMsOver(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("web-%02d", i+1))
	}
	legacyVMs(t, vc, func(name string) bool { return name > "web-38" }, names...)
	before := map[string]vcsim.VM{}
	for _, vm := range vc.VMs() {
		before[vm.Ref.Value] = vm
	}
	env := append(against(vc), "VMGROUP_ADOPT_FROM=shop=/DC0/vm/legacy")
	p := serveReady(t, env)
	commands, group := adoptPage(t)
	// typed returns the arguments of the block's command that begins with those words, and what the page shows.
	typed := func(words string) string {
		for command, shown := range commands {
			if strings.Contains("\n"+command, "\n"+words) {
				delete(commands, command)
				return shown
			}
		}
		t.Fatalf("docs/adopt.md has no command %s", words)
		return ""
	}
	compare := func(shown, out string) {
		t.Helper()
		if !outputPattern(shown).MatchString(out) {
			t.Errorf("docs/adopt.md:\n%s\nactual output:\n%s", shown, out)
		}
	}

	shown := typed("vmgroup adopt '/DC0/vm/legacy/web-*' --group shop/web >entries.yaml")
	out, errs, status := run(t, vmgroup(env, "adopt", "/DC0/vm/legacy/web-*", "--group", "shop/web"))
	if compare(shown, out); status != 0 || errs != "" {
		t.Fatalf("vmgroup adopt ended with the exit status %d: %s", status, errs)
	}
	typed("kubectl patch --local -f group.yaml --type merge --patch-file entries.yaml -o yaml >web.yaml")
	var entries struct{ Spec v1alpha1.VmGroupSpec }
	must.Succeed(t, yaml.UnmarshalStrict([]byte(out), &entries))
	var web v1alpha1.VmGroup
	must.Succeed(t, yaml.UnmarshalStrict([]byte(group), &web))
	web.Spec.Adopt, web.Spec.Replicas = entries.Spec.Adopt, entries.Spec.Replicas
	manifest, err := yaml.Marshal(&web)
	must.Succeed(t, err)

	shown = typed("vmgroup plan -f - <web.yaml")
	out, errs, status = preview(t, env, string(manifest), "--server", p.url)
	if compare(shown, out); status != 2 || strings.Contains(out, "Clone") {
		t.Errorf("vmgroup plan ended with the exit status %d: %s%s", status, out, errs)
	}
	shown = typed("sed 's/strategy: OnDelete/strategy: RollingUpdate/' web.yaml | vmgroup plan -f -")
	for _, args := range [][]string{{"--server", p.url}, {}} {
		out, errs, status = preview(t, env, strings.Replace(string(manifest), "strategy: OnDelete", "strategy: RollingUpdate", 1), args...)
		if compare(shown, out); status != 2 {
			t.Errorf("vmgroup plan ended with the exit status %d: %s%s", status, out, errs)
		}
	}

	typed("kubectl apply -f web.yaml")
	g := metacontroller.New(p.url, web.Namespace, web.Name, "uid-web", *web.Spec.Replicas)
	g.Spec = web.Spec
	a, err := g.Until(t.Context(), metacontroller.Running)
	must.Succeed(t, err)
	if a.Status.CurrentReplicas != 40 || len(a.Status.Adopted) != 40 {
		t.Errorf("%d members, %d adopted; want 40 of each", a.Status.CurrentReplicas, len(a.Status.Adopted))
	}
	check := func(name func(vcsim.VM) bool) {
		t.Helper()
		for _, vm := range vc.VMs() {
			if was, is := before[vm.Ref.Value]; is && (!vm.Boot.Equal(was.Boot) || vm.CPUs != was.CPUs || vm.MemoryMB != was.MemoryMB || !name(vm)) {
				t.Errorf("%+v was %+v", vm, was)
			}
		}
		if n := len(vc.VMs()); n != len(before) {
			t.Errorf("%d VMs, want %d", n, len(before))
		}
	}
	check(func(vm vcsim.VM) bool {
		return vm.Name == "vm-operator-template" || vm.Name == memberOf(before[vm.Ref.Value].Name)
	})
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Adopt = nil }) // or remove them
	_, err = g.Until(t.Context(), metacontroller.Running)
	must.Succeed(t, err)
	check(func(vcsim.VM) bool { return true })
	if len(commands) > 0 {
		t.Errorf("commands of docs/adopt.md that nothing runs: %q", commands)
	}
}

// memberOf is the name of the member that a VM of the page becomes: web-01 to web-09 are no names of members, so they get the free ones.
func memberOf(vm string) string {
	if number, is := strings.CutPrefix(vm, "web-0"); is {
		return "web-" + string(number[0]-1)
	}
	return vm
}

func TestAdoptListsWhatAPatternNamesAndWhyAVMCannotBeAdopted(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	legacyVMs(t, vc, func(string) bool { return false }, "web-2", "web-10", "db-1")
	_, err := vc.AddTemplate("/DC0/vm/legacy", "web-template")
	must.Succeed(t, err)
	allowed := append(against(vc), "VMGROUP_ADOPT_FROM=shop=/DC0/vm/legacy")
	for name, c := range map[string]struct {
		env    []string
		args   []string
		want   []string
		says   string
		status int
	}{
		"a pattern, by numbers": {allowed, []string{"/DC0/vm/legacy/web-*"}, []string{"web-2", "web-10"}, "", 0},
		"a folder":              {allowed, []string{"/DC0/vm/legacy"}, []string{"db-1", "web-2", "web-10"}, "", 0},
		"a folder with a slash": {allowed, []string{"/DC0/vm/legacy/"}, []string{"db-1", "web-2", "web-10"}, "", 0},
		"two patterns":          {allowed, []string{"/DC0/vm/legacy/web-2", "/DC0/vm/*/web-?"}, []string{"web-2"}, "", 0},
		"no VM":                 {allowed, []string{"/DC0/vm/legacy/app-*"}, nil, "no VM is at /DC0/vm/legacy/app-*", 1},
		"only a template":       {allowed, []string{"/DC0/vm/legacy/web-template"}, nil, "templates aside", 1},
		"a name":                {allowed, []string{"web-*"}, nil, "must be an inventory path or a pattern of one", 2},
		"a bad pattern":         {allowed, []string{"/DC0/vm/legacy/[a"}, nil, "must be an inventory path or a pattern of one", 2},
		"no pattern":            {allowed, nil, nil, "name VMs by the pattern of their inventory paths", 2},
		"another namespace":     {allowed, []string{"/DC0/vm/legacy/web-*", "--group", "blog/web"}, nil, "2 VMs can't be adopted (AdoptNotFound)", 1},
		"no rule":               {against(vc), []string{"/DC0/vm/legacy/web-2"}, nil, "--adopt-from", 1},
		"no group":              {allowed, []string{"/DC0/vm/legacy/web-2", "--group", "web"}, nil, "must be namespace/name", 2},
	} {
		args := append([]string{"adopt"}, c.args...)
		if !slices.Contains(c.args, "--group") {
			args = append(args, "--group", "shop/web")
		}
		out, errs, status := run(t, vmgroup(c.env, args...))
		var entries struct{ Spec v1alpha1.VmGroupSpec }
		if err := yaml.Unmarshal([]byte(out), &entries); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		var want []string
		for _, vm := range c.want {
			want = append(want, "/DC0/vm/legacy/"+vm)
		}
		if !slices.Equal(entries.Spec.Adopt, want) || status != c.status || !strings.Contains(errs, c.says) || c.says == "" && errs != "" {
			t.Errorf("%s: exit status %d: %s%s\nwant %v, %d and %q", name, status, out, errs, want, c.status, c.says)
		}
	}
}
