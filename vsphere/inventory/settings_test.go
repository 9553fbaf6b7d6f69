package inventory

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// resolved resolves a change of the lab's settings.
func resolved(t *testing.T, l *sessiontest.Lab, change func(*Selection)) (*Settings, *vcfault.Error) {
	t.Helper()
	var selection Selection
	change(&selection)
	c := l.Client(l.Config())
	s, err := c.Session(t.Context())
	must.Succeed(t, err)
	at, e := resolveSettings(t.Context(), s, selection)
	c.Logout(t.Context())
	return at, e
}

func TestWithOneOfEachNothingNeedsToBeSetAndTheRootFolderIsCreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		at, err := resolved(t, l, func(*Selection) {})
		if err != nil { // a *vcfault.Error, which as an error would not be nil
			t.Fatal(err)
		}
		if at.DatacenterPath != "/DC0" || at.datacenterName != "DC0" || at.RootPath != "/DC0/vm/vm-operator" ||
			at.PoolPath != "/DC0/host/DC0_C0/Resources" || at.Pool.Type != "ResourcePool" || at.Datastore != nil {
			t.Errorf("got %+v", at)
		}
		again, err := resolved(t, l, func(*Selection) {})
		if err != nil || again.Root != at.Root {
			t.Errorf("got %+v, %v", again, err)
		}
	})
}

// addHost adds a host that is in no cluster.
func addHost(l *sessiontest.Lab, name string) {
	l.T.Helper()
	hosts := object.NewFolder(l.Admin().Client, vctest.Value(l.Find("/DC0/host")))
	l.Done(hosts.AddStandaloneHost(l.T.Context(), types.HostConnectSpec{HostName: name}, true, nil, nil))
}

// folder creates a folder.
func folder(l *sessiontest.Lab, parent, name string) *object.Folder {
	l.T.Helper()
	folder, err := object.NewFolder(l.Admin().Client, vctest.Value(l.Find(parent))).CreateFolder(l.T.Context(), name)
	l.Must(err)
	return folder
}

func TestSettingsAreNamesOrPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{Datacenters: 2, Clusters: 2, Pools: 2, Datastores: 2})
		addHost(l, "DC0_H0")
		_, err := folder(l, "/DC1/host", "F0").CreateCluster(t.Context(), "DC1_C9", types.ClusterConfigSpecEx{})
		l.Must(err)
		l.Done(folder(l, "/", "F0").MoveInto(t.Context(), []types.ManagedObjectReference{vctest.Value(l.Find("/DC1"))}))
		for name, tc := range map[string]struct {
			change func(*Selection)
			want   func(*Settings) bool
		}{
			"by name": {
				func(c *Selection) { c.Datacenter, c.Pool, c.Datastore = "DC1", "DC1_C9", "LocalDS_1" },
				func(s *Settings) bool {
					return s.DatacenterPath == "/F0/DC1" && s.PoolPath == "/F0/DC1/host/F0/DC1_C9/Resources" && s.Datastore != nil && s.datastoreName == "LocalDS_1"
				},
			},
			"by path": {
				func(c *Selection) { c.Datacenter, c.Pool = "/F0/DC1", "/F0/DC1/host/F0/DC1_C9" },
				func(s *Settings) bool { return s.PoolPath == "/F0/DC1/host/F0/DC1_C9/Resources" },
			},
			"a resource pool": {
				func(c *Selection) { c.Datacenter, c.Pool = "DC0", "DC0_C1_RP2" },
				func(s *Settings) bool { return strings.HasSuffix(s.PoolPath, "/Resources/DC0_C1_RP2") },
			},
			"the end of a path": {
				func(c *Selection) { c.Datacenter, c.Pool = "F0/DC1", "DC1_C9/Resources" },
				func(s *Settings) bool { return s.PoolPath == "/F0/DC1/host/F0/DC1_C9/Resources" },
			},
			"a host alone": {
				func(c *Selection) { c.Datacenter, c.Pool = "DC0", "DC0_H0" },
				func(s *Settings) bool { return strings.HasSuffix(s.PoolPath, "DC0_H0/Resources") },
			},
			"a nested root folder": {
				func(c *Selection) { c.Datacenter, c.Pool, c.Folder = "DC0", "DC0_C0", "/platform/vms/" },
				func(s *Settings) bool { return s.RootPath == "/DC0/vm/platform/vms" },
			},
		} {
			at, err := resolved(t, l, tc.change)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !tc.want(at) {
				t.Errorf("%s: got %+v", name, at)
			}
		}
	})
}

func TestAMissingOrAmbiguousSettingIsReportedWithTheChoices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{Datacenters: 2, Datastores: 2})
		hosts := object.NewFolder(l.Admin().Client, vctest.Value(l.Find("/DC0/host")))
		for i := range 12 {
			_, err := hosts.CreateCluster(t.Context(), fmt.Sprintf("DC0_C%d", i+1), types.ClusterConfigSpecEx{})
			l.Must(err)
		}
		_, err := l.AddVM("/DC0/vm", "plain")
		l.Must(err)
		in := func(f func(*Selection)) func(*Selection) {
			return func(c *Selection) { c.Datacenter, c.Pool = "DC0", "DC0_C1"; f(c) }
		}
		for name, tc := range map[string]struct {
			change func(*Selection)
			reason string
			words  []string
		}{
			"several datacenters":    {func(*Selection) {}, vcfault.ReasonDatacenterAmbiguous, []string{"--datacenter", "/DC0, /DC1"}},
			"no such datacenter":     {func(c *Selection) { c.Datacenter = "DC9" }, vcfault.ReasonDatacenterNotFound, []string{`"DC9"`, "/DC0, /DC1"}},
			"several clusters":       {in(func(c *Selection) { c.Pool = "" }), vcfault.ReasonPoolAmbiguous, []string{"--pool", "/DC0/host/DC0_C0", "and 3 more"}},
			"no such pool":           {in(func(c *Selection) { c.Pool = "gold" }), vcfault.ReasonPoolNotFound, []string{"--pool", `"gold"`, "/DC0/host/DC0_C0", "more"}},
			"a pool of many":         {in(func(c *Selection) { c.Pool = "Resources" }), vcfault.ReasonPoolAmbiguous, []string{"--pool", "/DC0/host/DC0_C0/Resources"}},
			"no such datastore":      {in(func(c *Selection) { c.Datastore = "slow" }), vcfault.ReasonDatastoreNotFound, []string{"--datastore", `"slow"`, "LocalDS_0", "LocalDS_1"}},
			"a VM for a folder":      {in(func(c *Selection) { c.Folder = "plain" }), vcfault.ReasonFolderNotFound, []string{"--folder", "/DC0/vm/plain"}},
			"a cluster of the other": {in(func(c *Selection) { c.Pool = "DC1_C0" }), vcfault.ReasonPoolNotFound, []string{`"DC1_C0"`}},
		} {
			_, err := resolved(t, l, tc.change)
			if err == nil || err.Reason != tc.reason || !err.NeedsOperator || !vctest.Mentions(err.Message, tc.words...) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestReplicasCreateOneRootFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		var all sync.WaitGroup
		roots := make(chan string, 8)
		for range 8 {
			c := l.Client(l.Config())
			s, err := c.Session(t.Context())
			must.Succeed(t, err)
			all.Go(func() {
				at, err := resolveSettings(t.Context(), s, Selection{Folder: "a/b/c"})
				if err != nil {
					t.Error(err)
					return
				}
				roots <- at.Root.Value
			})
		}
		all.Wait()
		close(roots)
		seen := map[string]bool{}
		for r := range roots {
			seen[r] = true
		}
		if len(seen) != 1 {
			t.Errorf("roots: %v; want one", seen)
		}
		found, err := object.NewSearchIndex(l.Admin().Client).FindByInventoryPath(t.Context(), "/DC0/vm/a/b/c")
		if err != nil || found == nil || !seen[found.Reference().Value] {
			t.Errorf("got %v, %v", found, err)
		}
	})
}

func TestAListingIsInOrderAndBounded(t *testing.T) {
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("n%02d", 24-i))
	}
	if got := vcfault.Listing(names); got != "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 15 more" {
		t.Errorf("got %q; want %q", got, "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 15 more")
	}
}
