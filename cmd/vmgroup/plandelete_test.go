package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestPlanDeleteShowsWhatADeletionWouldRemove(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "default", "web", "uid-web", 2)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := g.Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(&g.VmGroup)
	must.Succeed(t, err)
	for _, args := range [][]string{{"--server", p.url}, {}} {
		out, errs, status := preview(t, against(vc), string(manifest), append([]string{"--delete", "-o", "json"}, args...)...)
		var answers []hook.PlanAnswer
		if status != 2 || json.Unmarshal([]byte(out), &answers) != nil || len(answers) != 1 {
			t.Fatalf("%v: exit status %d, %s%s", args, status, out, errs)
		}
		var destroyed []string
		for _, s := range answers[0].Steps {
			if s.Op == "Destroy" {
				destroyed = append(destroyed, s.VM)
			}
		}
		slices.Sort(destroyed)
		if !slices.Equal(destroyed, []string{"web-0", "web-1"}) {
			t.Errorf("%v: plans to destroy %v, want %v: %s", args, destroyed, []string{"web-0", "web-1"}, out)
		}
	}
	for _, c := range []struct {
		args []string
		edit func(*v1alpha1.VmGroupSpec)
		want string
	}{
		{[]string{"--delete"}, func(*v1alpha1.VmGroupSpec) {}, "Plan: 0 to create, 0 to change, 2 to remove\n"},
		{[]string{"--delete"}, func(s *v1alpha1.VmGroupSpec) { s.Deletion.Policy = "Retain" }, "Plan: 0 to create, 0 to change, 0 to remove, 2 to release\n"},
		{nil, func(s *v1alpha1.VmGroupSpec) { s.Memory *= 2 }, "Plan: 1 to create, 2 to change, 1 to remove\n"},
	} {
		edited := g.VmGroup.DeepCopy()
		c.edit(&edited.Spec)
		edited.Generation++
		if manifest, err = json.Marshal(edited); err != nil {
			t.Fatal(err)
		}
		if out, errs, status := preview(t, against(vc), string(manifest), append(c.args, "--server", p.url)...); status != 2 || !strings.HasSuffix(out, "\n"+c.want) {
			t.Errorf("vmgroup ended with the exit status %d, want %q: %s%s", status, c.want, out, errs)
		}
	}
	if n := vc.Calls()["PowerOffVM_Task"] + vc.Calls()["Destroy_Task"]; n > 0 {
		t.Errorf("the preview made %d calls that remove something; want none", n)
	}
}
