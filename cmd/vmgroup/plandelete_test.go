package main

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestPlanDeleteShowsWhatADeletionWouldRemove(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "default", "web", "uid-web", 2)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(&g.VmGroup)
	if err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("%v: plans to destroy %v: %s", args, destroyed, out)
		}
	}
	if n := vc.Calls()["PowerOffVM_Task"] + vc.Calls()["Destroy_Task"]; n > 0 {
		t.Errorf("the preview made %d calls that remove something", n)
	}
}
