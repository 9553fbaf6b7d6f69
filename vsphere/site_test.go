package vsphere

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
)

// resolved resolves a change of the lab's settings.
func resolved(t *testing.T, l *lab, change func(*Config)) (*site, *Error) {
	t.Helper()
	cfg := l.config()
	change(&cfg)
	c, _ := l.client(cfg)
	s, err := c.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at, e := resolveSite(t.Context(), s, cfg)
	c.logout(t.Context())
	return at, e
}

func TestWithOneOfEachNothingNeedsToBeSetAndTheRootFolderIsMade(t *testing.T) {
	l := startLab(t, func(m *simulator.Model) { m.Host = 0 })
	at, err := resolved(t, l, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	if at.datacenterPath != "/DC0" || at.datacenterName != "DC0" || at.rootPath != "/DC0/vm/vm-operator" ||
		at.poolPath != "/DC0/host/DC0_C0/Resources" || at.pool.Type != "ResourcePool" || at.datastore != nil {
		t.Errorf("got %+v", at)
	}
	again, err := resolved(t, l, func(*Config) {})
	if err != nil || again.root != at.root {
		t.Errorf("got %+v, %v", again, err)
	}
}

func TestSettingsAreNamesOrPaths(t *testing.T) {
	l := startLab(t, func(m *simulator.Model) {
		m.Host = 1
		m.Datacenter, m.Cluster, m.Pool, m.Datastore, m.Folder = 2, 2, 2, 2, 1
	})
	for name, tc := range map[string]struct {
		change func(*Config)
		want   func(*site) bool
	}{
		"by name": {
			func(c *Config) { c.Datacenter, c.Pool, c.Datastore = "DC1", "DC1_C0", "LocalDS_1" },
			func(s *site) bool {
				return s.datacenterPath == "/F0/DC1" && s.poolPath == "/F0/DC1/host/F0/DC1_C0/Resources" && s.datastore != nil
			},
		},
		"by path": {
			func(c *Config) { c.Datacenter, c.Pool = "/F0/DC1", "/F0/DC1/host/F0/DC1_C0" },
			func(s *site) bool { return s.poolPath == "/F0/DC1/host/F0/DC1_C0/Resources" },
		},
		"a resource pool": {
			func(c *Config) { c.Datacenter, c.Pool = "DC0", "DC0_C1_RP2" },
			func(s *site) bool { return strings.HasSuffix(s.poolPath, "/Resources/DC0_C1_RP2") },
		},
		"the end of a path": {
			func(c *Config) { c.Datacenter, c.Pool = "F0/DC1", "DC1_C0/Resources" },
			func(s *site) bool { return s.poolPath == "/F0/DC1/host/F0/DC1_C0/Resources" },
		},
		"a host alone": {
			func(c *Config) { c.Datacenter, c.Pool = "DC0", "DC0_H0" },
			func(s *site) bool { return strings.HasSuffix(s.poolPath, "DC0_H0/Resources") },
		},
		"a nested root folder": {
			func(c *Config) { c.Datacenter, c.Pool, c.Folder = "DC0", "DC0_C0", "/platform/vms/" },
			func(s *site) bool { return s.rootPath == "/DC0/vm/platform/vms" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := resolved(t, l, tc.change)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.want(at) {
				t.Errorf("got %+v", at)
			}
		})
	}
}

func TestWhatIsMissingOrAmbiguousIsSaidWithWhatThereIs(t *testing.T) {
	l := startLab(t, func(m *simulator.Model) {
		m.Host, m.Machine = 1, 2
		m.Datacenter, m.Cluster, m.Datastore = 2, 12, 2
	})
	in := func(f func(*Config)) func(*Config) {
		return func(c *Config) { c.Datacenter, c.Pool = "DC0", "DC0_C1"; f(c) }
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		reason string
		words  []string
	}{
		"several datacenters":    {func(*Config) {}, ReasonDatacenterAmbiguous, []string{"--datacenter", "/DC0, /DC1"}},
		"no such datacenter":     {func(c *Config) { c.Datacenter = "DC9" }, ReasonDatacenterNotFound, []string{`"DC9"`, "/DC0, /DC1"}},
		"several clusters":       {in(func(c *Config) { c.Pool = "" }), ReasonPoolAmbiguous, []string{"--pool", "/DC0/host/DC0_C0", "and 3 more"}},
		"no such pool":           {in(func(c *Config) { c.Pool = "gold" }), ReasonPoolNotFound, []string{"--pool", `"gold"`, "/DC0/host/DC0_C0", "more"}},
		"a pool of many":         {in(func(c *Config) { c.Pool = "Resources" }), ReasonPoolAmbiguous, []string{"--pool", "/DC0/host/DC0_C0/Resources"}},
		"no such datastore":      {in(func(c *Config) { c.Datastore = "slow" }), ReasonDatastoreNotFound, []string{"--datastore", `"slow"`, "LocalDS_0", "LocalDS_1"}},
		"a VM for a folder":      {in(func(c *Config) { c.Folder = "DC0_H0_VM0" }), ReasonFolderNotFound, []string{"--folder", "/DC0/vm/DC0_H0_VM0"}},
		"a cluster of the other": {in(func(c *Config) { c.Pool = "DC1_C0" }), ReasonPoolNotFound, []string{`"DC1_C0"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, l, tc.change)
			if err == nil || err.Reason != tc.reason || !err.Person || !mentions(err.Message, tc.words...) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCopiesOfTheServerMakeOneRootFolder(t *testing.T) {
	l := startLab(t, func(m *simulator.Model) { m.Host = 0 })
	cfg := l.config()
	cfg.Folder = "a/b/c"
	var all sync.WaitGroup
	roots := make(chan string, 8)
	for range 8 {
		c, _ := l.client(cfg)
		s, err := c.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			at, err := resolveSite(t.Context(), s, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			roots <- at.root.Value
		})
	}
	all.Wait()
	close(roots)
	seen := map[string]bool{}
	for r := range roots {
		seen[r] = true
	}
	if len(seen) != 1 {
		t.Errorf("roots: %v", seen)
	}
	found, err := object.NewSearchIndex(l.admin).FindByInventoryPath(t.Context(), "/DC0/vm/a/b/c")
	if err != nil || found == nil || !seen[found.Reference().Value] {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestAListingIsInOrderAndBounded(t *testing.T) {
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("n%02d", 24-i))
	}
	if got := listing(names); got != "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 15 more" {
		t.Errorf("got %q", got)
	}
}
