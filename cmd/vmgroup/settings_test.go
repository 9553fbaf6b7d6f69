package main

import (
	"reflect"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/adoptfrom"
	"github.com/spf13/cobra"
)

// Not parallel, because it sets environment variables.
func TestAdoptFromComesFromTheFlagOrItsVariable(t *testing.T) {
	type rules = []adoptfrom.Rule
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
		if err := command.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := fromEnvironment(command); err != nil {
			t.Fatal(err)
		}
		got, err := adoptRules(s.adoptFrom)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q %v: %v, %v", c.variable, c.args, got, err)
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
