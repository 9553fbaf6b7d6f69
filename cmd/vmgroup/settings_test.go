package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Not parallel, because it sets environment variables.
func TestAdoptFromComesFromTheFlagOrItsVariable(t *testing.T) {
	type rules = []inventory.AdoptRule
	for _, c := range []struct {
		variable string
		args     []string
		want     rules
	}{
		{"", nil, nil},
		{"", []string{"--adopt-from", "*=/DC0/vm/legacy"}, rules{{Namespace: "*", Folder: "/DC0/vm/legacy"}}},
		{"", []string{"--adopt-from", "a=/DC0/vm/a", "--adopt-from=b=/DC0/vm/b c/d"}, rules{{Namespace: "a", Folder: "/DC0/vm/a"}, {Namespace: "b", Folder: "/DC0/vm/b c/d"}}},
		{"a=/DC0/vm/a, b=/DC0/vm/b%2cc", nil, rules{{Namespace: "a", Folder: "/DC0/vm/a"}, {Namespace: "b", Folder: "/DC0/vm/b%2cc"}}},
		{"a=/DC0/vm/a", []string{"--adopt-from", "b=/DC0/vm/b"}, rules{{Namespace: "b", Folder: "/DC0/vm/b"}}},
	} {
		t.Setenv("VMGROUP_ADOPT_FROM", c.variable)
		s, command := &settings{}, &cobra.Command{}
		s.flags(command)
		must.Succeed(t, command.ParseFlags(c.args))
		must.Succeed(t, fromEnvironment(command))
		got, err := adoptRules(s.adoptFrom)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q %v: %v, %v; want no error and %v", c.variable, c.args, got, err, c.want)
		}
	}
}

func TestNoMemberIsProbedByDefaultAndTheServerItselfNever(t *testing.T) {
	t.Parallel()
	own, err := net.InterfaceAddrs()
	must.Succeed(t, err)
	for _, allowed := range [][]string{nil, {"0.0.0.0/0", "::/0"}} {
		s := &settings{probeNetworks: allowed}
		must.Succeed(t, s.networks())
		if guest := netip.MustParseAddr("192.0.2.7"); s.probe.Networks.Allow(guest) != (allowed != nil) {
			t.Errorf("with %v, %s can be asked: %t; want %t", allowed, guest, s.probe.Networks.Allow(guest), allowed != nil)
		}
		for _, a := range own {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && s.probe.Networks.Allow(prefix.Addr()) {
				t.Errorf("with %v, the server is allowed to ask itself at %s", allowed, prefix.Addr())
			}
		}
	}
}

func TestShellCompletionOffersValuesAndNoFiles(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--adopt-from": "*=/\n:4\n", "--log-format": "json\nconsole\n:4\n"} {
		out, err := vmgroup(nil, "__complete", "serve", flag, "").Output()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %v: %q", flag, err, out)
		}
	}
}

// Only tests may use the fields that replace the network between the server and vCenter: no flag may do so, so no file of this package may
// name them.
func TestNoFlagReachesTheNetworkSeam(t *testing.T) {
	t.Parallel()
	seam := map[string]bool{}
	for of, names := range map[reflect.Type][]string{
		reflect.TypeFor[session.Config](): {"Dial", "Through"}, reflect.TypeFor[vcsim.Config](): {"Listener", "Plain"},
	} {
		for _, name := range names {
			if _, is := of.FieldByName(name); !is {
				t.Errorf("%s has no field %s: name the seam as it is called now", of, name)
			}
			seam[name] = true
		}
	}
	files, err := filepath.Glob("*.go")
	must.Succeed(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must.Succeed(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			name := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if name = n.Sel.Name; types.ExprString(n) == "net.Listener" || types.ExprString(n) == "s.probe.Dial" { // the listener of the hooks, and connections to guests
					name = ""
				}
			case *ast.KeyValueExpr:
				if key, is := n.Key.(*ast.Ident); is {
					name = key.Name
				}
			}
			if seam[name] {
				t.Errorf("%s names %s", path, name)
			}
			return true
		})
	}
}

// The chart refuses other names in its settings, so the chart must know all names, except for those that it sets itself.
func TestTheChartTakesEveryVariableOfTheServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../charts/vmgroup/values.schema.json")
	must.Succeed(t, err)
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	must.Succeed(t, json.Unmarshal(text, &schema))
	taken := schema.Properties.Settings.Properties
	for _, proxy := range []string{"HTTPS_PROXY", "NO_PROXY"} {
		if taken[proxy] == nil {
			t.Errorf("the chart doesn't take %s", proxy)
		}
		delete(taken, proxy)
	}
	deployment, err := os.ReadFile("../../charts/vmgroup/templates/deployment.yaml")
	must.Succeed(t, err)
	own := map[string]bool{"VC_USER": true, "VC_PASS": true, "VMGROUP_SIMULATOR": true} // the chart sets these through files and a value
	for _, name := range regexp.MustCompile(`- name: (V[A-Z_]+)\n`).FindAllStringSubmatch(string(deployment), -1) {
		own[name[1]] = true
	}
	serveCommand(nil).Flags().VisitAll(func(f *pflag.Flag) {
		variable := f.Annotations[envAnnotation][0]
		if own[variable] == (taken[variable] != nil) {
			t.Errorf("%s is a setting of the chart: %t; the chart sets it itself: %t", variable, taken[variable] != nil, own[variable])
		}
		delete(taken, variable)
	})
	for variable := range taken {
		t.Errorf("the server has no %s", variable)
	}
}
