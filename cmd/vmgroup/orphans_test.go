package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestACheckListsWhatNoVmGroupHasAndRemovesNothing(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	up := func(name string) *metacontroller.Group {
		g := metacontroller.New(p.url, "shop", name, "uid-"+name, 2)
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
			s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		})
		if _, err := g.Until(t.Context(), metacontroller.Running); err != nil {
			t.Fatal(err)
		}
		return g
	}
	web, db := up("web"), up("db")
	ref, err := vc.AddTemplate("/DC0/vm", "appliance")
	if err = errors.Join(err, vc.AddLibrary("golden"), vc.AddLibraryItem("golden", "appliance", "ovf", ref)); err != nil {
		t.Fatal(err)
	}
	of := metacontroller.New(p.url, "shop", "of", "uid-of", 1)
	of.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/appliance" })
	if _, err := of.Until(t.Context(), metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	if _, err := vc.MakeFolder("/DC0/vm/vm-operator/shop/old"); err != nil {
		t.Fatal(err)
	}
	cluster := "" // the cluster that the check compares
	orphans := func(groups ...*metacontroller.Group) (said string, warnings int) {
		var all []*v1alpha1.VmGroup
		for _, g := range groups {
			all = append(all, &g.VmGroup)
		}
		list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": all})
		must.Succeed(t, err)
		c := vmgroup(against(vc), "check", "--orphans", "--cluster-id", cluster, "-f", "-")
		c.Stdin = strings.NewReader(string(list))
		out, errs, status := run(t, c)
		if status != 0 {
			t.Errorf("vmgroup ended with the exit status %d: %s%s; want 0", status, out, errs)
		}
		return strings.Join(strings.Fields(out), " "), strings.Count(out, "orphaned ")
	}
	said, warnings := orphans(web, of)
	for _, want := range []string{
		"of shop/db (UID uid-db), which is not among the VmGroups of -f: /DC0/vm/vm-operator/shop/db/db-0, /DC0/vm/vm-operator/shop/db/db-1",
		"with the UID uid-db", "shop/db-0/data (", "shop/db-1/data (", "/DC0/vm/vm-operator/shop/old belongs to none",
		`the DRS rule "vmgroup shop.db uid-db" of DC0_C0 belongs to none`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the check of orphans does not say %q: %s", want, said)
		}
	}
	if warnings != 4 || strings.Contains(said, "shop/web") || strings.Contains(said, "none: every VM") {
		t.Errorf("the check gave %d warnings: %s", warnings, said)
	}
	if said, warnings = orphans(web, db, of); warnings != 1 || !strings.Contains(said, "shop/old") {
		t.Errorf("the check gave %d warnings: %s; want 1 and %q in the text", warnings, said, "shop/old")
	}
	old := metacontroller.New(p.url, "shop", "old", "uid-old", 0)
	if said, warnings = orphans(web, db, of, old); warnings != 0 || !strings.Contains(said, "none: every VM, disk, folder, DRS rule and deployed template that the server made belongs to one of 4 VmGroups") {
		t.Errorf("the check gave %d warnings: %s", warnings, said)
	}
	if said, warnings = orphans(); warnings < 6 || !strings.Contains(said, "-f has no VmGroup, so every object that the server made in vCenter is listed") ||
		!strings.Contains(said, "of shop/web (UID uid-web)") {
		t.Errorf("the check gave %d warnings of an empty list: %s", warnings, said)
	}
	of.Spec.Template = "vm-operator-template"
	if said, warnings = orphans(web, db, of, old); warnings != 1 || !strings.Contains(said, "/DC0/vm/vm-operator/vmgroup-appliance-1-") || !strings.Contains(said, "none of the VmGroups of -f names that version") {
		t.Errorf("the check gave %d warnings: %s; want 1 and %q and %q in the text", warnings, said, "/DC0/vm/vm-operator/vmgroup-appliance-1-", "none of the VmGroups of -f names that version")
	}
	cluster = "another" // the VMs and their rules are not in this cluster
	if said, _ = orphans(old); strings.Contains(said, "uid-db") && strings.Contains(said, "DRS rule") || strings.Contains(said, "shop/db/db-0") {
		t.Errorf("what another cluster has is listed: %s", said)
	}
	if calls := vc.Calls(); calls["Destroy_Task"] > 0 || calls["DeleteVStorageObject_Task"] > 0 {
		t.Errorf("the check of orphans removed something: %v", calls)
	}
}

func TestACheckOfOrphansWantsVmGroups(t *testing.T) {
	t.Parallel()
	if _, errs, status := runCheck(t, nil, "--simulator", "--orphans"); status != 2 || !strings.Contains(errs, "kubectl get vmgroups -A") {
		t.Errorf("vmgroup ended with the exit status %d: %s; want 2 and %q in the text", status, errs, "kubectl get vmgroups -A")
	}
	for list, want := range map[string]int{
		"apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n": 0, // the output of kubectl get -o yaml without groups
		"": 2, // the output if kubectl failed
	} {
		c := vmgroup(nil, "check", "--simulator", "--orphans", "-f", "-")
		c.Stdin = strings.NewReader(list)
		out, errs, status := run(t, c)
		if status != want || (want == 0) != strings.Contains(out, "none: vCenter shows no VM") || (want == 2) != strings.Contains(errs, "contains no VmGroup") {
			t.Errorf("%q: exit status %d: %s%s", list, status, out, errs)
		}
	}
}
