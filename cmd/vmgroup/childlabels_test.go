package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestChildrenTakeTheLabelsOfTheirGroupThatASettingNames(t *testing.T) {
	t.Parallel()
	p := serveReady(t, append(against(startVCenter(t, vcsim.Config{})), "VMGROUP_CHILD_LABELS=team,example.com/*"))
	g := metacontroller.New(p.url, "shop", "web", "uid-web", 1)
	g.Labels = map[string]string{"team": "a", "example.com/cost": "7", "stage": "x", "app.kubernetes.io/instance": "argo"}
	g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := g.Until(ctx, metacontroller.Running)
	must.Succeed(t, err)
	seen := 0
	for kind, children := range g.Children {
		for name, text := range children {
			var child struct {
				Metadata struct{ Labels map[string]string }
			}
			must.Succeed(t, json.Unmarshal(text, &child))
			l := child.Metadata.Labels
			if seen++; l["team"] != "a" || l["example.com/cost"] != "7" || l["stage"] != "" || l["app.kubernetes.io/instance"] != "" || l[v1alpha1.LabelGroup] != "web" {
				t.Errorf("%s %s has the labels %v", kind, name, l)
			}
		}
	}
	if seen < 2 {
		t.Errorf("%d children", seen)
	}
	if _, errs, status := run(t, vmgroup(nil, "serve", "--simulator", "--child-labels", "app.kubernetes.io/instance")); status != 2 ||
		!strings.Contains(errs, "--child-labels (VMGROUP_CHILD_LABELS)") || !strings.Contains(errs, "other programs act on") {
		t.Errorf("exit status %d: %s", status, errs)
	}
}
