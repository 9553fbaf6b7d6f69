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
	"net/netip"
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
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// planted is a password that must not appear anywhere.
const planted = "planted-secret"

// world is a vCenter to check.
type world struct {
	*vctest.World
	t testing.TB
}

func worldOf(t testing.TB, w *vctest.World) *world { return &world{w, t} }

func (w *world) config() vsphere.Config {
	return vsphere.Config{Config: sessiontest.Config(w.World), Selection: inventory.Selection{ClusterID: "test"}}
}

// inABubble runs a test with a vCenter in a synctest bubble, in parallel with other tests.
func inABubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, worldOf(t, vctest.New(t))) })
}

func (w *world) drs(d vcsim.DRS) { w.t.Helper(); w.Must(w.SetDRS("/DC0/host/DC0_C0", d)) }

// groupOf returns a group of the template ubuntu.
func groupOf(change func(*v1alpha1.VmGroupSpec)) *v1alpha1.VmGroup {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 1, Memory: 1, Template: "ubuntu"}}
	g.Namespace, g.Name, g.UID = "shop", "web", "uid-web"
	change(&g.Spec)
	return g
}

// results are the findings of a check.
type results struct {
	t   testing.TB
	all []Finding
}

// checked checks the vCenter; change can be nil.
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
		w.t.Errorf("vCenter has %d sessions left; want none", n)
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
	r.t.Errorf("the findings have none of the check %q with the result %s, %q in Seen and %q in Advice:\n%s", check, result, seen, advice, r)
}

// of returns the finding of a check.
func (r results) of(check string) Finding {
	r.t.Helper()
	i := slices.IndexFunc(r.all, func(f Finding) bool { return f.Check == check })
	if i < 0 {
		r.t.Fatalf("there is no finding of the check %q: %s", check, r)
	}
	return r.all[i]
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
	inABubble(t, func(t *testing.T, w *world) {
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
			t.Errorf("the check called %v, which is outside the least role; want none", outside)
		}
	})
}

func roleIDs() (ids []string) {
	for _, p := range role.Least() {
		ids = append(ids, p.ID)
	}
	return ids
}

// The test runs in real time, because failing handshakes need the buffer of a socket.
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
		t.Errorf("%d logins without a trusted certificate; want 0", ok+refused)
	}
	w.checked(func(c *vsphere.Config) { c.Thumbprint, c.Insecure = "", true }, Options{}).has("certificate", Warn, "not verified", w.ThumbprintSHA256())
	w.checked(func(c *vsphere.Config) { c.Password = "wrong " + planted }, Options{}).has("login", Fail, "InvalidLogin", "VC_PASS")
	if _, refused := w.Logins(); refused != 1 {
		t.Errorf("a wrong password was tried %d times, and vCenter locks accounts; want 1", refused)
	}
	w.checked(func(c *vsphere.Config) { c.Password, c.PasswordFile = "", filepath.Join(t.TempDir(), "none") }, Options{}).has("login", Fail, "CredentialsUnreadable", "VC_PASS_FILE")
}

func TestCheckSendsNoPasswordToAnotherWebServer(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
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
	inABubble(t, func(t *testing.T, w *world) {
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

func TestCheckReportsHostsThatLackTheHardwareVersionOfAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 2}))
		w.Must(w.SetHardwareVersion("/DC0/host/DC0_C0/DC0_C0_H0", 17))
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{groupOf(func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 19 })}}).
			has("group shop/web: hardware version", Warn, "1 of 2 hosts of DC0_C0 have hardware version 19", "upgrade the other hosts")
	})
}

func TestCheckReportsOldVCenters(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]Result{"6.0": Fail, "6.5": Warn, "6.7.3": Warn, "7.0.3.0": OK, "8.0.3.0": OK, "9.0.0.0": Warn, "": Fail} {
		s := &session.Session{Vim: &vim25.Client{}}
		s.Vim.ServiceContent.About = types.AboutInfo{ApiVersion: version, InstanceUuid: "uuid"}
		c := &checker{s: s}
		if c.version(t.Context()); c.findings[0].Result != want {
			t.Errorf("%q: got %+v, want %s", version, c.findings[0], want)
		}
	}
}

// rich returns a vCenter that has one object of each kind that a group can name.
func rich(t *testing.T) *world {
	w := worldOf(t, vctest.Of(t, vcsim.Config{Datacenters: 2, Clusters: 2, Hosts: 2, Datastores: 2, Templates: []string{"ubuntu", "debian"}}))
	vctest.Value(w.AddVM("/DC0/vm", "plain"))
	w.Must(w.RegisterExtension("com.vmworld.codeconnect.vmgroup"))
	w.Must(w.SetVAppProperties("debian"))
	w.Must(w.AddCustomizationSpec("linux", false))
	vctest.Value(w.AddTag("team", "shop"))
	w.Must(w.AddLibrary("golden"))
	w.Must(w.AddLibraryItem("golden", "ubuntu", "vm-template", vctest.Value(w.AddTemplate("/DC0/vm", "ubuntu of the library"))))
	w.Must(w.AddLibraryItem("golden", "appliance", "iso", types.ManagedObjectReference{}))
	w.Must(w.AddLibraryItem("golden", "ova", "ovf", vctest.Value(w.Find("/DC0/vm/debian"))))
	w.Must(w.AddLibraryItem("golden", "licensed", "ovf", vctest.Value(w.Find("/DC0/vm/debian"))))
	w.EditOVF("licensed", func(o *vcsim.OVF) { o.EULAs = []string{"all yours"} })
	w.Must(w.AddLibraryItem("golden", "hidden", "vm-template", types.ManagedObjectReference{Value: "vm-9999"}))
	return w
}

// wrongSettings are settings that name no object, or more than one.
var wrongSettings = []struct {
	check        string
	result       Result
	seen, advice string
	change       func(*vsphere.Config)
}{
	{"datacenter", Fail, "more than one datacenter", "/DC0, /DC1", func(c *vsphere.Config) { c.Datacenter, c.Pool = "", "" }},
	{"datacenter", Fail, `"DC7"`, "/DC0, /DC1", func(c *vsphere.Config) { c.Datacenter = "DC7" }},
	{"resource pool", Fail, "more than one", "/DC0/host/DC0_C0, /DC0/host/DC0_C1", func(c *vsphere.Config) { c.Pool = "" }},
	{"datastore", Fail, `"nowhere"`, "LocalDS_0", func(c *vsphere.Config) { c.Datastore = "nowhere" }},
	{"datastore", OK, "/DC0/datastore/LocalDS_1, ", "", func(c *vsphere.Config) { c.Datastore = "LocalDS_1" }},
	{"folder", Fail, "/DC0/vm/plain is not a folder", "--folder", func(c *vsphere.Config) { c.Folder = "plain/x" }},
}

// wrongOptions are templates and networks that vCenter does not have.
var wrongOptions = []struct {
	check        string
	result       Result
	seen, advice string
	o            Options
}{
	{"template", Skip, "debian, ubuntu", "--template", Options{}},
	{"template", Fail, `"windows"`, "debian, ubuntu", Options{Templates: []string{"windows"}}},
	{"template", Fail, "not a template", "/DC0/vm/plain", Options{Templates: []string{"plain"}}},
	{"vApp properties", OK, "debian has some", "", Options{Templates: []string{"debian"}}},
	{"network", Fail, `"web-tier"`, "VM Network", Options{Networks: []string{"web-tier"}}},
}

// groups are changes of a group's spec, each with a finding that it must cause. step is the rest of the check's name, after the group's.
var groups = []struct {
	step         string
	result       Result
	seen, advice string
	change       func(*v1alpha1.VmGroupSpec)
}{
	{"", OK, "storage policy VM Encryption Policy; encrypted before the first power-on; customization linux; 1 tags; managedBy", "", func(s *v1alpha1.VmGroupSpec) {
		s.CustomizationSpec, s.Tags = "linux", []v1alpha1.Tag{{Category: "team", Name: "shop"}}
		s.Placement.StoragePolicy, s.Networks = "VM Encryption Policy", []v1alpha1.Network{{Network: "VM Network"}}
	}},
	{"", OK, "everything a clone needs exists", "", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/ubuntu" }},
	{"", Fail, "LibraryItemUnusable", "", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/appliance" }},
	{"", OK, `"golden/ova" is an OVF: when a group names it, the server deploys it once, as the template vmgroup-ova-1-`, "", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/ova" }},
	{"", Fail, "license agreements", "", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/licensed" }},
	{"", Fail, "LibraryItemUnusable", "DeployTemplate", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/hidden" }},
	{"", Fail, "TemplateNotFound", "", func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/other" }},
	{"", Fail, "TemplateNotFound", "ubuntu", func(s *v1alpha1.VmGroupSpec) { s.Template = "other" }},
	{"", Fail, "spec.cpu", "correct the field", func(s *v1alpha1.VmGroupSpec) { s.CPU = -1 }},
	{": template and snapshot", Fail, "SnapshotNotFound", "take one", func(s *v1alpha1.VmGroupSpec) { s.Clone.Mode = v1alpha1.CloneLinked }},
	{": hardware", Fail, "boots with BIOS, which has no virtual TPM", "", func(s *v1alpha1.VmGroupSpec) { s.Hardware.VTPM = true }},
	{": resource pool", Fail, "ResourcePoolNotFound", "DC0_C0", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "other" }},
	{": resource pool", Fail, "ResourcePoolNotFound", "spec.placement.zones", func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"DC0_C0", "other"} }},
	{": storage", Fail, "StoragePolicyNotFound", "VM Encryption Policy", func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy = "gold" }},
	{": customization", Fail, "CustomizationSpecNotFound", "linux", func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy, s.CustomizationSpec = "gold", "other" }}, // in addition to the finding about storage
	{": networks", Fail, "NetworkNotFound", "VM Network", func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "other"}} }},
	{": tags", Fail, "TagNotFound", "", func(s *v1alpha1.VmGroupSpec) { s.Tags = []v1alpha1.Tag{{Category: "team", Name: "other"}} }},
	{": disks", Fail, "StoragePolicyNotFound", "spec.disks", func(s *v1alpha1.VmGroupSpec) {
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, StoragePolicy: "gold"}}
	}},
	{": disks", Fail, "DatastoreNotFound", "LocalDS_0", func(s *v1alpha1.VmGroupSpec) {
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Datastore: "gold", Persistent: true}}
	}},
	{"", OK, "everything a clone needs exists", "", func(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}} }},
	{"", OK, "1 networks", "", addressed(3, 0)},
	{": networks", Warn, "no adapter of spec.networks gets an address", "user data", func(s *v1alpha1.VmGroupSpec) {
		s.Networks, s.Service = []v1alpha1.Network{{Network: "VM Network", DHCP: new(false)}}, &v1alpha1.Service{}
	}},
	{": networks", Warn, "for 4 members, and an update has up to 5", "update.maxSurge to 0", addressed(3, 1)},
	{": networks", Fail, "replicas and standby are 5", "add some", addressed(3, 2)},
	{": readiness", Fail, "none becomes ready", "--probe-networks", func(s *v1alpha1.VmGroupSpec) { s.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22} }},
	{": host group", Fail, "HostGroupNotFound", "licensed", func(s *v1alpha1.VmGroupSpec) {
		s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"licensed", "site-b"}}
	}},
	{": hardware version", Fail, "No host of DC0_C0 can upgrade a VM to hardware version 99", "spec.hardware.version", func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 99 }},
	{"", OK, "everything a clone needs exists", "", func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 17 }},
	{"", OK, "1 host groups", "", func(s *v1alpha1.VmGroupSpec) {
		s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"licensed"}, Rule: v1alpha1.HostRuleRequired}
	}},
	{": rules", Warn, "2 members, and up to 1 more during an update, are to be apart on the 2 hosts of DC0_C0", "MembersShareHost", keptApart(v1alpha1.AntiAffinityPreferred, 2)},
	{": rules", Warn, "3 members, and up to 1 more during an update, are to be apart on the 2 hosts of DC0_C0", "powers no member on", keptApart(v1alpha1.AntiAffinityRequired, 3)},
	{"", OK, "everything a clone needs exists", "", keptApart(v1alpha1.AntiAffinityRequired, 1)},
	{": rules", Warn, "DRS is off in DC0_C1", "turn on DRS", func(s *v1alpha1.VmGroupSpec) {
		s.Placement.Pool, s.Placement.AntiAffinity = "DC0_C1", v1alpha1.AntiAffinityPreferred
	}},
}

func keptApart(how v1alpha1.AntiAffinity, replicas int32) func(*v1alpha1.VmGroupSpec) {
	return func(s *v1alpha1.VmGroupSpec) { s.Placement.AntiAffinity, s.Replicas = how, &replicas }
}

// addressed gives a group four static addresses.
func addressed(replicas, standby int32) func(*v1alpha1.VmGroupSpec) {
	return func(s *v1alpha1.VmGroupSpec) {
		s.Replicas, s.Standby = &replicas, standby
		s.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.254-10.0.1.1"}, PrefixLength: 16}}}
	}
}

func TestCheckSaysWhatIsWrongAndWhatThereIsInstead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := rich(t)
		w.Must(w.SetDRS("/DC0/host/DC0_C1", vcsim.DRS{Off: true}))
		w.Must(w.SetHostGroup("/DC0/host/DC0_C0", "licensed", "/DC0/host/DC0_C0/DC0_C0_H0"))
		in := func(c *vsphere.Config) { c.Datacenter, c.Pool = "DC0", "DC0_C0" }
		for _, x := range wrongSettings {
			w.checked(func(c *vsphere.Config) { in(c); x.change(c) }, Options{}).has(x.check, x.result, x.seen, x.advice)
		}
		for _, x := range wrongOptions {
			w.checked(in, x.o).has(x.check, x.result, x.seen, x.advice)
		}
		for _, x := range groups {
			r := w.checked(in, Options{Groups: []*v1alpha1.VmGroup{groupOf(x.change)}})
			if r.has("group shop/web"+x.step, x.result, x.seen, x.advice); x.result == OK {
				r.only()
			}
		}
		booted := groupOf(func(s *v1alpha1.VmGroupSpec) {
			s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		})
		w.checked(in, Options{Groups: []*v1alpha1.VmGroup{booted}}).has("group shop/web", OK, "user data not checked", "")
		twin := groupOf(addressed(3, 0))
		twin.Name = "twin"
		w.checked(in, Options{Groups: []*v1alpha1.VmGroup{groupOf(addressed(3, 0)), twin}}).
			has("group shop/twin: networks", Fail, "10.0.0.254-10.0.1.1 in the network VM Network: the group shop/web also has", "other ranges")
		ref, _ := plan.UserDataOf(booted)
		for text, x := range map[string]struct {
			step         string
			result       Result
			seen, advice string
		}{
			"#cloud-config":                    {"", OK, "; user data", ""},
			`{"ignition":{"version":"3.4.0"}}`: {"", OK, "; user data for Ignition", ""},
			"packages: [nginx]":                {": user data", Warn, "no format that guests read (UserDataUnrecognized)", "butane"},
			"":                                 {": user data", Fail, "(UserDataEmpty)", "put a text for cloud-init or Ignition into it"},
		} {
			w.checked(in, Options{Groups: []*v1alpha1.VmGroup{booted}, UserData: func(*v1alpha1.VmGroup) plan.Related { return ref.Take([]byte(text)) }}).
				has("group shop/web"+x.step, x.result, x.seen, x.advice)
		}
		probed := groupOf(addressed(3, 0))
		probed.Spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
		probing := func(network string) results {
			return w.checked(in, Options{Groups: []*v1alpha1.VmGroup{probed}, CanProbe: netip.MustParsePrefix(network).Contains})
		}
		probing("10.0.0.0/8").only()
		probing("10.0.0.0/24").has("group shop/web: readiness", Fail, "web-2 has the address 10.0.1.0, which the server is not allowed to ask", "--probe-networks")
	})
}

// Someone who does what the check's advice says must succeed.
func TestCheckAcceptsEachTextThatItOffersForAnAmbiguousName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Clusters: 2, Pools: 1, Datastores: 2, Pods: 1, Portgroups: 1, Templates: []string{"ubuntu"}}))
		vctest.Value(w.MakeFolder("/DC0/vm/old"))
		vctest.Value(w.AddTemplate("/DC0/vm/old", "ubuntu"))
		for path, name := range map[string]string{"/DC0/network/DC0_DVPG0": "VM Network", "/DC0/datastore/LocalDS_1": "DC0_POD0",
			"/DC0/host/DC0_C0/Resources/DC0_C0_RP1": "shop", "/DC0/host/DC0_C1/Resources/DC0_C1_RP1": "shop"} {
			w.Must(w.SetName(path, name))
		}
		for step, x := range map[string]struct {
			reason, name string
			texts        []string
			field        func(s *v1alpha1.VmGroupSpec, name string)
		}{
			"": {"TemplateAmbiguous", "ubuntu", []string{"/DC0/vm/old/ubuntu", "/DC0/vm/ubuntu"},
				func(s *v1alpha1.VmGroupSpec, name string) { s.Template = name }},
			": resource pool": {"ResourcePoolAmbiguous", "shop", []string{"/DC0/host/DC0_C0/Resources/shop", "/DC0/host/DC0_C1/Resources/shop"},
				func(s *v1alpha1.VmGroupSpec, name string) { s.Placement.Pool = name }},
			": storage": {"DatastoreAmbiguous", "DC0_POD0", []string{"Datastore:/DC0/datastore/DC0_POD0", "StoragePod:/DC0/datastore/DC0_POD0"},
				func(s *v1alpha1.VmGroupSpec, name string) { s.Placement.Datastore = name }},
			": networks": {"NetworkAmbiguous", "VM Network", []string{"/DC0/network/DVS0/VM Network", "Network:/DC0/network/VM Network"},
				func(s *v1alpha1.VmGroupSpec, name string) { s.Networks = []v1alpha1.Network{{Network: name}} }},
		} {
			of := func(name string) results {
				group := groupOf(func(s *v1alpha1.VmGroupSpec) {
					s.Template = "/DC0/vm/ubuntu"
					x.field(s, name)
				})
				return w.checked(func(c *vsphere.Config) { c.Pool = "DC0_C0" }, Options{Groups: []*v1alpha1.VmGroup{group}})
			}
			of(x.name).has("group shop/web"+step, Fail, x.reason, "to one of "+strings.Join(x.texts, ", "))
			for _, text := range x.texts {
				of(text).has("group shop/web", OK, "everything a clone needs exists", "")
			}
		}
	})
}

func TestCheckReportsWhatChoosesTheHosts(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		for says, d := range map[string]vcsim.DRS{
			"on in DC0_C0, fullyAutomated: DRS chooses":  {},
			"on in DC0_C0, manual: the server overrides": {Level: types.DrsBehaviorManual},
			"off in DC0_C0: the server spreads clones over its 1 hosts, deploys OVFs of content libraries to one of them": {Off: true},
			"1 VMs of DC0_C0 override the automation level":                                                               {Levels: map[string]types.DrsBehavior{"vm-1": types.DrsBehaviorManual}},
		} {
			w.drs(d)
			r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
			r.only()
			r.has("DRS", OK, says, "")
		}
	})
}

// A template that was made from a member has the member's stamp, and its user data with its secrets.
func TestCheckNamesATemplateThatHasTheUserDataOfAMember(t *testing.T) {
	of := stamp.Stamp{Namespace: "shop", Name: "we\u202eb", UID: "uid-web", Ordinal: 3, InstanceUUID: "u", Generation: 1}
	for name, c := range map[string]struct {
		set  map[string]string
		says string
		not  string
	}{
		"a member's":              {map[string]string{stamp.Key: of.Encode(), guest.UserDataKey: planted, guest.MetadataKey: "{}"}, `whose stamp it has, and has its user data`, "\u202e"},
		"without the stamp":       {map[string]string{guest.UserDataKey: planted, guest.MetadataKey: "{}"}, "a VM that a guest was configured for, and has its user data", "stamp"},
		"a member's without data": {map[string]string{stamp.Key: of.Encode()}, "whose stamp it has", "user data"},
		"its own":                 {map[string]string{guest.IgnitionKey: planted}, "has user data of its own, which members of groups without userData get", "stamp"},
		"nothing":                 {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.Must(w.ToVM("ubuntu"))
				for key, value := range c.set {
					w.Must(w.SetExtraConfig("ubuntu", key, value))
				}
				w.Must(w.ToTemplate("ubuntu"))
				r := w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{groupOf(func(*v1alpha1.VmGroupSpec) {})}})
				if c.says == "" {
					r.only()
					return
				}
				r.only("user data")
				r.has("user data", Warn, c.says, "remove")
				if strings.Contains(r.of("user data").Seen, c.not) {
					t.Errorf("the finding is %q; want no %q", r.of("user data").Seen, c.not)
				}
			})
		})
	}
}

func TestCheckWarnsOfWhatClonesInheritOfATemplate(t *testing.T) {
	t.Parallel()
	for version, tpm := range map[string]string{"8.0.3.0": "each member gets a new one", "7.0.3.0": "copies to each member"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, APIVersion: version}))
				yes, drive := types.NewBool(true), &types.VirtualCdrom{VirtualDevice: types.VirtualDevice{Key: -1,
					Backing:     &types.VirtualCdromIsoBackingInfo{VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: "[LocalDS_0] tools.iso"}},
					Connectable: &types.VirtualDeviceConnectInfo{StartConnected: true}}}
				w.Must(w.ToVM("ubuntu"))
				card := hardware.NICsIn(vctest.Value(w.Details("ubuntu")).Config.Hardware.Device)[0]
				card.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().AddressType = string(types.VirtualEthernetCardMacTypeManual)
				w.Must(w.Reconfigure("ubuntu", types.VirtualMachineConfigSpec{
					CpuAllocation:    &types.ResourceAllocationInfo{Limit: types.NewInt64(-1)},
					MemoryAllocation: &types.ResourceAllocationInfo{Limit: types.NewInt64(512)}, MemoryReservationLockedToMax: yes, CpuHotAddEnabled: yes,
					DeviceChange: []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: drive},
						&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: card}}}))
				w.Must(w.ToTemplate("ubuntu"))
				w.Must(w.AddTPM("ubuntu"))
				w.Restrict(roleIDs()...)
				r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
				r.only("CD-ROM", "resource limits", "reserved memory", "MAC address", "vTPM", "privilege Cryptographer.Clone")
				r.has("MAC address", Warn, "is set by hand", "automatic")
				r.has("CD-ROM", Warn, "[LocalDS_0] tools.iso", "disconnect it")
				r.has("resource limits", Warn, "limited to 512 MiB of memory", "remove the limit")
				r.has("reserved memory", Warn, "reserves all its memory", "with that much free memory")
				r.has("hot-add", OK, "more CPUs while powered on, more memory with a power cycle", "")
				r.has("vTPM", Warn, tpm, "")
				r.has("privilege Cryptographer.Clone", Warn, "/DC0/vm/ubuntu", "")
			})
		})
	}
}

func TestAnAccountThatReadsTheGroupsOwnObjectsOnlyPassesTheCheck(t *testing.T) {
	own := []string{"/DC0/vm/ubuntu", "/DC0/vm/vm-operator", "/DC0/host/DC0_C0/Resources", "/DC0/host/DC0_C0", "/DC0/datastore/LocalDS_0", "/DC0/network/VM Network"}
	for lacks, reported := range map[string]func(results){
		"nothing":                 func(r results) { r.only() },
		"/DC0/network/VM Network": func(r results) { r.has("network", Fail, "vCenter shows its user no network", "grant") },
		"/DC0/host/DC0_C0": func(r results) {
			r.only("DRS", "privilege System.Read", "privilege Host.Inventory.EditCluster")
			r.has("privilege System.Read", Warn, "/DC0/host/DC0_C0", "no `placement.antiAffinity`")
		},
	} {
		t.Run(lacks, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				_, err := w.MakeFolder("/DC0/vm/vm-operator")
				w.Must(err)
				w.Restrict(roleIDs()...)
				var readable []types.ManagedObjectReference
				for _, path := range own {
					if path != lacks {
						readable = append(readable, vctest.Value(w.Find(path)))
					}
				}
				w.GrantRead(true, readable...)
				reported(w.checked(nil, Options{Templates: []string{"ubuntu"}, Networks: []string{"VM Network"}}))
			})
		})
	}
}

func TestCheckNamesEachMissingPrivilegeAndItsObject(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		o := Options{Templates: []string{"ubuntu"}}
		for _, p := range role.Least() {
			if strings.HasPrefix(p.ID, "System.") {
				continue // vCenter adds these privileges to every role
			}
			w.Restrict(roleIDs()...)
			w.Withdraw(p.ID)
			want := Warn
			if p.Needed() {
				want = Fail
			}
			r := w.checked(nil, o)
			r.has("privilege "+p.ID, want, "vmgroup does not have it on ", "grant it")
			r.only("privilege " + p.ID)
		}
		w.Restrict(roleIDs()...)
		w.Withdraw("System.Read", vctest.Value(w.Find("/DC0/host/DC0_C0")))
		w.checked(nil, o).has("privilege System.Read", Warn, "/DC0/host/DC0_C0", "no `placement.antiAffinity`")
		w.Restrict(roleIDs()...)
		w.Withdraw("Datastore.AllocateSpace", vctest.Value(w.Find("/DC0/datastore/LocalDS_0")))
		w.checked(nil, o).has("privilege Datastore.AllocateSpace", Fail, "/DC0/datastore/LocalDS_0", "")
		w.Restrict(roleIDs()...)
		w.Withdraw("VirtualMachine.Provisioning.DeployTemplate", vctest.Value(w.Find("/DC0/vm")))
		w.checked(nil, o).has("privilege VirtualMachine.Provisioning.DeployTemplate", Fail, "/DC0/vm/ubuntu", "")
		w.Restrict(roleIDs()...)
		w.Withdraw("InventoryService.Tagging." + "AttachTag")
		g := groupOf(func(s *v1alpha1.VmGroupSpec) { s.Tags = []v1alpha1.Tag{{Category: "a", Name: "b", Create: true}} })
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{g}}).has("privilege "+"InventoryService.Tagging."+"AttachTag", Fail, "", "the group needs it")
		w.Restrict(roleIDs()...)
		w.Must(w.AddLibrary("golden"))
		w.Must(w.AddLibraryItem("golden", "ova", "ovf", vctest.Value(w.Find("/DC0/vm/ubuntu"))))
		for _, privilege := range []string{"VApp.Import", "VirtualMachine.Provisioning.MarkAsTemplate"} {
			w.Withdraw(privilege)
			w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{groupOf(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/ova" })}}).
				has("privilege "+privilege, Fail, "", "the group needs it")
		}
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
		w.Restrict(roleIDs()...)
		if _, err := w.AddStoragePolicy("gold"); err != nil {
			t.Fatal(err)
		}
		w.Withdraw("VirtualMachine.Config.Settings")
		w.Withdraw("StorageProfile.View")
		for _, privilege := range []string{"VirtualMachine.Config.Settings", "StorageProfile.View"} {
			w.checked(nil, o).has("privilege "+privilege, Warn, "", "or accept this")
		}
		g.Spec.Hardware.BootDelaySeconds, g.Spec.Disks[0].StoragePolicy = 3, "gold"
		for _, privilege := range []string{"VirtualMachine.Config.Settings", "StorageProfile.View"} {
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
		away := groupOf(func(s *v1alpha1.VmGroupSpec) {
			s.Networks, s.Placement.Folder = []v1alpha1.Network{{Network: "DC0_DVPG0"}}, "teams/shop"
		})
		plain := groupOf(func(*v1alpha1.VmGroupSpec) {})
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain}}).only()
		r := w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain, away}})
		r.has("privilege Folder.Create", Fail, "/DC0/vm/teams ", "")
		r.has("privilege Network.Assign", Fail, "DC0_DVPG0", "")
		w.Withdraw("Network.Assign", vctest.Value(w.Find("/DC0/network/VM Network")))
		w.checked(nil, Options{Groups: []*v1alpha1.VmGroup{plain, away}}).has("privilege Network.Assign", Fail, "VM Network", "")
	})
}

func TestStoppedCheckReportsThatItStopped(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
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
			t.Errorf("vCenter has %d sessions left; want none", n)
		}
	})
}
