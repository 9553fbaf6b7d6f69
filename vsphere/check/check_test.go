package check

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// planted is a password that must not appear anywhere.
const planted = "planted-secret"

// results are the findings of a check.
type results struct {
	t   testing.TB
	all []Finding
}

// checked checks the vCenter; change may be nil.
func (w *world) checked(change func(*vsphere.Config), o Options, also ...func(*checker)) results {
	w.t.Helper()
	cfg := w.config()
	cfg.Insecure, cfg.Thumbprint = false, w.ThumbprintSHA256()
	cfg.User, cfg.Password = "vmgroup", planted
	if change != nil {
		change(&cfg)
	}
	v, err := vsphere.New(cfg)
	w.Must(err)
	if o.GuestTimeout == 0 {
		o.GuestTimeout = 5 * time.Minute
	}
	c := newChecker(v, o)
	for _, f := range also {
		f(c)
	}
	found := results{w.t, c.run(w.t.Context())}
	if text, _ := json.Marshal(found.all); strings.Contains(string(text), planted) {
		w.t.Errorf("the findings contain the password: %s", text)
	}
	w.reported(found.all)
	if n := w.Sessions(); n > 0 {
		w.t.Errorf("%d sessions left", n)
	}
	return found
}

// has requires a finding with this result and with these texts in Seen and Advice.
func (r results) has(check string, result Result, seen, advice string) {
	r.t.Helper()
	for _, f := range r.all {
		if f.Check == check && f.Result == result && strings.Contains(f.Seen, seen) && strings.Contains(f.Advice, advice) {
			return
		}
	}
	r.t.Errorf("no %s of %q with %q and %q:\n%s", result, check, seen, advice, r)
}

func (r results) String() string {
	var b strings.Builder
	for _, f := range r.all {
		b.WriteString(string(f.Result) + " " + f.Check + ": " + f.Seen + " → " + f.Advice + "\n")
	}
	return b.String()
}

// only requires that all findings but these are OK or SKIP, and that each WARN and FAIL has an advice.
func (r results) only(but ...string) {
	r.t.Helper()
	for _, f := range r.all {
		bad := f.Result == Warn || f.Result == Fail
		if bad && !slices.Contains(but, f.Check) {
			r.t.Errorf("%s %s: %s → %s", f.Result, f.Check, f.Seen, f.Advice)
		}
		if bad && (f.Seen == "" || f.Advice == "") {
			r.t.Errorf("%s %s has no description or no advice: %+v", f.Result, f.Check, f)
		}
	}
}

func TestCheckOfAGoodVCenterFindsAndChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		w.Restrict(roleIDs()...)
		r := w.checked(nil, Options{Templates: []string{"ubuntu"}, Networks: []string{"VM Network"}})
		r.only()
		r.has("address", OK, "127.0.0.1", "")
		r.has("certificate", OK, "verified by its thumbprint", "")
		r.has("login", OK, "vmgroup", "")
		r.has("vCenter", OK, "8.0.3", "")
		r.has("folder", OK, "/DC0/vm/vm-operator does not exist yet", "")
		r.has("resource pool", OK, "/DC0/host/DC0_C0/Resources", "")
		r.has("inventory", OK, "2 VMs and templates", "")
		r.has("stream of changes", OK, "for 5 objects", "")
		r.has("template", OK, "/DC0/vm/ubuntu", "")
		r.has("hot-add", OK, "more CPUs with a power cycle", "")
		r.has("network", OK, "/DC0/network/VM Network", "")
		r.has("privileges", OK, fmt.Sprintf("all %d", len(role.Least())), "")
		for method := range w.Calls() {
			if strings.HasSuffix(method, "_Task") || strings.HasPrefix(method, "Create") && method != "CreatePropertyCollector" && method != "CreateFilter" {
				t.Errorf("the check called %s", method)
			}
		}
		if outside := role.Outside(w.Calls()); len(outside) > 0 {
			t.Errorf("the check called %v, which is outside the least role", outside)
		}
	})
}

func roleIDs() (ids []string) {
	for _, p := range role.Least() {
		ids = append(ids, p.ID)
	}
	return ids
}

// In real time, because failing handshakes need the buffer of a socket.
func TestCheckReportsEndpointAndCertificateProblems(t *testing.T) {
	t.Parallel()
	w := worldOf(t, vctest.Real(t, vcsim.Config{User: "vmgroup", Password: planted}))
	other := worldOf(t, vctest.Real(t, vcsim.Config{}))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	w.Must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.certificate()}), 0o600))

	r := w.checked(func(c *vsphere.Config) { c.Host = "127.0.0.1:1" }, Options{})
	r.has("address", Fail, "port 1", "check that vCenter is running")
	r.has("the rest", Skip, "", "")
	w.checked(func(c *vsphere.Config) { c.Host = "no..name" }, Options{}).has("address", Fail, "cannot be resolved", "--host")
	r = w.checked(func(c *vsphere.Config) { c.CAFile, c.Thumbprint = ca, "" }, Options{})
	r.has("certificate", Fail, "CN=vcsim", "--ca-file")
	r.has("certificate", Fail, "authority is unknown", w.ThumbprintSHA256())
	w.checked(func(c *vsphere.Config) { c.Thumbprint = other.ThumbprintSHA256() }, Options{}).has("certificate", Fail, w.ThumbprintSHA256(), "--thumbprint")
	if ok, refused := w.Logins(); ok+refused != 0 {
		t.Errorf("%d logins without a trusted certificate", ok+refused)
	}
	w.checked(func(c *vsphere.Config) { c.Thumbprint, c.Insecure = "", true }, Options{}).has("certificate", Warn, "not verified", w.ThumbprintSHA256())
	w.checked(func(c *vsphere.Config) { c.Password = "wrong " + planted }, Options{}).has("login", Fail, "InvalidLogin", "VC_PASS")
	if _, refused := w.Logins(); refused != 1 {
		t.Errorf("a wrong password was tried %d times, and vCenter locks accounts", refused)
	}
	w.checked(func(c *vsphere.Config) { c.Password, c.PasswordFile = "", filepath.Join(t.TempDir(), "none") }, Options{}).has("login", Fail, "CredentialsUnreadable", "VC_PASS_FILE")
}

func TestCheckSendsNoPasswordToAnotherWebServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		for status, want := range map[int][3]string{
			http.StatusOK:       {"vCenter", "does not respond like a vCenter", "--host"},
			http.StatusNotFound: {"login", "404", "VC_HOST"},
		} {
			var sent atomic.Bool
			web := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent.Store(sent.Load() || strings.Contains(string(body), planted))
				rw.WriteHeader(status)
				_, _ = io.WriteString(rw, "<html>welcome</html>")
			}))
			w.Must(web.Listener.Close())
			web.Listener = w.Network.Listen()
			web.Config.ErrorLog = log.New(io.Discard, "", 0)
			web.StartTLS()
			t.Cleanup(web.Close)
			r := w.checked(func(c *vsphere.Config) { c.Host, c.Insecure, c.Thumbprint = web.Listener.Addr().String(), true, "" }, Options{})
			r.has(want[0], Fail, want[1], want[2])
			if sent.Load() {
				t.Error("the web server got the password")
			}
		}
	})
}

// certificate returns vCenter's certificate.
func (w *world) certificate() []byte {
	w.t.Helper()
	v, err := vsphere.New(w.config())
	w.Must(err)
	c := newChecker(v, Options{})
	leaf, err := c.handshake(w.t.Context(), &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	w.Must(err)
	return leaf.Raw
}

func TestCheckReportsClockSkewAndAnExpiringCertificate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		shifted := func(d time.Duration) results {
			return w.checked(nil, Options{}, func(c *checker) { c.now = func() time.Time { return time.Now().Add(d) } })
		}
		shifted(0).has("clock", OK, "off by 0s", "")
		shifted(-time.Minute).has("clock", Warn, "off by 1m0s", "NTP")
		shifted(time.Hour).has("clock", Fail, "off by -1h0m0s", "NTP")
		shifted(350*24*time.Hour).has("certificate", Warn, "in 1", "renew it in time")
		shifted(370*24*time.Hour).has("certificate", Warn, "which has expired", "renew it")
	})
}

func TestCheckReportsOldVCenters(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]Result{"6.0": Fail, "6.5": Warn, "6.7.3": Warn, "7.0.3.0": OK, "9.0.0.0": OK, "": Fail} {
		s := &session.Session{Vim: &vim25.Client{}}
		s.Vim.ServiceContent.About = types.AboutInfo{ApiVersion: version, InstanceUuid: "uuid"}
		c := &checker{s: s}
		if c.version(t.Context()); c.findings[0].Result != want {
			t.Errorf("%q: got %+v, want %s", version, c.findings[0], want)
		}
	}
}

func TestCheckListsAlternativesForWrongSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Datacenters: 2, Clusters: 2, Datastores: 2, Templates: []string{"ubuntu", "debian"}}))
		_, err := w.AddVM("/DC0/vm", "plain")
		w.Must(err)
		in := func(change func(*vsphere.Config)) func(*vsphere.Config) {
			return func(c *vsphere.Config) { c.Datacenter, c.Pool = "DC0", "DC0_C0"; change(c) }
		}
		same := in(func(*vsphere.Config) {})
		w.checked(nil, Options{}).has("datacenter", Fail, "more than one datacenter", "/DC0, /DC1")
		w.checked(func(c *vsphere.Config) { c.Datacenter = "DC7" }, Options{}).has("datacenter", Fail, `"DC7"`, "/DC0, /DC1")
		w.checked(in(func(c *vsphere.Config) { c.Pool = "" }), Options{}).has("resource pool", Fail, "more than one", "/DC0/host/DC0_C0, /DC0/host/DC0_C1")
		w.checked(in(func(c *vsphere.Config) { c.Datastore = "nowhere" }), Options{}).has("datastore", Fail, `"nowhere"`, "LocalDS_0")
		w.checked(in(func(c *vsphere.Config) { c.Datastore = "LocalDS_1" }), Options{}).has("datastore", OK, "/DC0/datastore/LocalDS_1, ", "")
		w.checked(in(func(c *vsphere.Config) { c.Folder = "plain/x" }), Options{}).has("folder", Fail, "/DC0/vm/plain is not a folder", "--folder")
		w.checked(same, Options{}).has("template", Skip, "debian, ubuntu", "--template")
		w.checked(same, Options{Templates: []string{"windows"}}).has("template", Fail, `"windows"`, "debian, ubuntu")
		w.checked(same, Options{Templates: []string{"plain"}}).has("template", Fail, "not a template", "/DC0/vm/plain")
		w.checked(same, Options{Networks: []string{"web-tier"}}).has("network", Fail, `"web-tier"`, "VM Network")
	})
}

func TestCheckCoversEverythingThatAGroupNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		w.Must(w.RegisterExtension("com.vmworld.codeconnect.vmgroup"))
		w.Must(w.SetVAppProperties("ubuntu"))
		w.Must(w.AddCustomizationSpec("linux", false))
		_, err := w.AddTag("team", "shop")
		w.Must(err)
		group := func(change func(*v1alpha1.VmGroupSpec)) results {
			g := &v1alpha1.VmGroup{}
			g.Namespace, g.Name = "shop", "web"
			g.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu"}
			change(&g.Spec)
			return w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}})
		}
		w.AddLibrary("golden")
		golden, err := w.AddTemplate("/DC0/vm", "ubuntu of the library")
		w.Must(err)
		w.Must(w.AddLibraryItem("golden", "ubuntu", "vm-template", golden))
		w.Must(w.AddLibraryItem("golden", "appliance", "ovf", types.ManagedObjectReference{}))
		w.Must(w.AddLibraryItem("golden", "hidden", "vm-template", types.ManagedObjectReference{Value: "vm-9999"}))
		group(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/ubuntu" }).has("group shop/web", OK, "everything a clone needs exists", "")
		group(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/appliance" }).has("group shop/web", Fail, "LibraryItemUnusable", "")
		group(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/hidden" }).has("group shop/web", Fail, "LibraryItemUnusable", "DeployTemplate")
		group(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/other" }).has("group shop/web", Fail, "TemplateNotFound", "")
		all := group(func(s *v1alpha1.VmGroupSpec) {
			s.CustomizationSpec, s.Tags = "linux", []v1alpha1.Tag{{Category: "team", Name: "shop"}}
			s.Placement.StoragePolicy = "VM Encryption Policy"
			s.Networks = []v1alpha1.Network{{Network: "VM Network"}}
		})
		all.only()
		all.has("group shop/web", OK, "storage policy VM Encryption Policy; customization linux; 1 tags; managedBy", "")
		all.has("vApp properties", OK, "ubuntu has some", "")
		addresses := func(replicas, standby int32) results {
			return group(func(s *v1alpha1.VmGroupSpec) {
				s.Replicas, s.Standby = &replicas, standby
				s.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.13"}, PrefixLength: 16}}}
			})
		}
		addresses(3, 0).only()
		addresses(3, 1).has("group shop/web: networks", Warn, "for 4 members, and an update has up to 5", "update.maxSurge to 0")
		addresses(3, 2).has("group shop/web: networks", Fail, "replicas and standby are 5", "add some")
		for _, persistent := range []bool{false, true} {
			disk := func(d v1alpha1.Disk) results {
				d.Name, d.SizeGiB, d.Persistent = "data", 1, persistent
				return group(func(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{d} })
			}
			disk(v1alpha1.Disk{}).only()
			disk(v1alpha1.Disk{StoragePolicy: "gold"}).has("group shop/web: disks", Fail, "StoragePolicyNotFound", "spec.disks")
			disk(v1alpha1.Disk{Datastore: "gold"}).has("group shop/web: disks", Fail, "DatastoreNotFound", "LocalDS_0")
		}
		group(func(s *v1alpha1.VmGroupSpec) { s.CPU = -1 }).has("group shop/web", Fail, "spec.cpu", "correct the field")
		group(func(s *v1alpha1.VmGroupSpec) { s.Template = "other" }).has("group shop/web", Fail, "TemplateNotFound", "ubuntu")
		group(func(s *v1alpha1.VmGroupSpec) { s.Clone.Mode = v1alpha1.CloneLinked }).has("group shop/web: template and snapshot", Fail, "SnapshotNotFound", "take one")
		group(func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "other" }).has("group shop/web: resource pool", Fail, "ResourcePoolNotFound", "DC0_C0")
		group(func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"DC0_C0", "other"} }).has("group shop/web: resource pool", Fail, "ResourcePoolNotFound", "spec.placement.zones")
		group(func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy = "gold" }).has("group shop/web: storage", Fail, "StoragePolicyNotFound", "VM Encryption Policy")
		several := group(func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy, s.CustomizationSpec = "gold", "other" })
		several.has("group shop/web: storage", Fail, "", "")
		several.has("group shop/web: customization", Fail, "", "")
		group(func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "other"}} }).has("group shop/web: networks", Fail, "NetworkNotFound", "VM Network")
		group(func(s *v1alpha1.VmGroupSpec) { s.CustomizationSpec = "other" }).has("group shop/web: customization", Fail, "CustomizationSpecNotFound", "linux")
		group(func(s *v1alpha1.VmGroupSpec) { s.Tags = []v1alpha1.Tag{{Category: "team", Name: "other"}} }).has("group shop/web: tags", Fail, "TagNotFound", "")
	})
}

func TestCheckNamesEachMissingPrivilegeAndItsObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		o := Options{Templates: []string{"ubuntu"}}
		for _, p := range role.Least() {
			if slices.Contains(p.On, role.OnRoot) && p.Needed() {
				continue // in every role
			}
			w.Restrict(roleIDs()...)
			w.Withdraw(p.ID)
			want := Warn
			if p.Needed() {
				want = Fail
			}
			r := w.checked(nil, o)
			r.has("privilege "+p.ID, want, "vmgroup does not hold it on ", "grant it")
			r.only("privilege " + p.ID)
		}
		w.Restrict(roleIDs()...)
		w.Withdraw("Datastore.AllocateSpace", vctest.Value(w.Find("/DC0/datastore/LocalDS_0")))
		w.checked(nil, o).has("privilege Datastore.AllocateSpace", Fail, "/DC0/datastore/LocalDS_0", "")
		w.Restrict(roleIDs()...)
		w.Withdraw("VirtualMachine.Provisioning.DeployTemplate", vctest.Value(w.Find("/DC0/vm")))
		w.checked(nil, o).has("privilege VirtualMachine.Provisioning.DeployTemplate", Fail, "/DC0/vm/ubuntu", "")
		w.Restrict(roleIDs()...)
		w.Withdraw("InventoryService.Tagging." + "AttachTag")
		g := &v1alpha1.VmGroup{}
		g.Namespace, g.Name = "shop", "web"
		g.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Tags: []v1alpha1.Tag{{Category: "a", Name: "b", Create: true}}}
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}}).has("privilege "+"InventoryService.Tagging."+"AttachTag", Fail, "", "the group needs it")
		w.Restrict(roleIDs()...)
		for _, privilege := range []string{"Datastore.FileManagement", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.RemoveDisk", "VirtualMachine.Config.DiskExtend"} {
			w.Withdraw(privilege, vctest.Value(w.Find("/DC0/vm")), vctest.Value(w.Find("/DC0/datastore/LocalDS_0")))
		}
		g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1}}
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}}).has("privilege VirtualMachine.Config.DiskExtend", Fail, "", "the group needs it")
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}}).has("privilege VirtualMachine.Config.AddExistingDisk", Warn, "", "or accept this")
		g.Spec.Disks[0].Persistent = true
		for _, privilege := range []string{"Datastore.FileManagement", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.RemoveDisk"} {
			w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}}).has("privilege "+privilege, Fail, "", "the group needs it")
		}
		w.FailCall("FetchUserPrivilegeOnEntities", &types.NoPermission{PrivilegeId: "System.View"}, 1)
		w.checked(nil, o).has("privileges", Warn, "System.View", "docs/reference.md")
	})
}

func TestCheckCoversPrivilegesOnAGroupsFolderAndNetworks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, Portgroups: 1}))
		teams, err := object.NewFolder(w.Admin().Client, vctest.Value(w.Find("/DC0/vm"))).CreateFolder(t.Context(), "teams")
		w.Must(err)
		w.Restrict(roleIDs()...)
		w.Withdraw("Folder.Create", teams.Reference())
		w.Withdraw("Network.Assign", vctest.Value(w.Find("/DC0/network/DC0_DVPG0")))
		away := &v1alpha1.VmGroup{}
		away.Namespace, away.Name = "shop", "web"
		away.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Networks: []v1alpha1.Network{{Network: "DC0_DVPG0"}}}
		away.Spec.Placement.Folder = "teams/shop"
		plain := &v1alpha1.VmGroup{}
		plain.Namespace, plain.Name = "shop", "plain"
		plain.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu"}
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain}}).only()
		r := w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain, away}})
		r.has("privilege Folder.Create", Fail, "/DC0/vm/teams ", "")
		r.has("privilege Network.Assign", Fail, "DC0_DVPG0", "")
		w.Withdraw("Network.Assign", vctest.Value(w.Find("/DC0/network/VM Network")))
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain, away}}).has("privilege Network.Assign", Fail, "VM Network", "")
	})
}

func TestStoppedCheckReportsThatItStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		cfg := w.config()
		v, err := vsphere.New(cfg)
		w.Must(err)
		ctx, cancel := context.WithCancel(t.Context())
		found := Run(ctx, v, Options{Found: func(f Finding) {
			if f.Check == "login" {
				cancel()
			}
		}})
		results{t, found}.has("the rest", Skip, "stopped", "")
		if n := w.Sessions(); n > 0 {
			t.Errorf("%d sessions left", n)
		}
	})
}
