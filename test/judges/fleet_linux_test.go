package judges

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook/guard"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// Each story runs real servers, and lists the alerts that must fire, according to promtool, for the metrics of these servers. The exact times of
// alerts are tested with written series (testdata/alerts.yaml).
func TestAlertsFireForRealServers(t *testing.T) {
	all, failing := debians(t), []string{"one", "two", "three", "four", "five", "six"}
	for name, story := range map[string]struct {
		clone time.Duration
		pods  []string
		live  func(*testing.T, *fleet)
		want  []firing
	}{
		"some group always rolls": {5 * time.Minute, []string{"a"}, alwaysRolling, []firing{{60, nil}, {90, nil}, {120, nil}, {150, nil}}},
		"the replica that is called loses vCenter, and then all": {time.Minute, []string{"a", "b"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "web", 2)
			f.group("bank", "db", 1)
			f.until(20)
			f.replicas["a"].wire.Cut()
			f.until(60)
			f.end("a")
			f.called = "b"
			f.until(90)
			f.Down()
			f.until(200)
			f.Up()
			f.until(220)
		}, []firing{{22, nil}, {32, []string{"VmGroupVCenterLost a"}}, {60, []string{"VmGroupVCenterLost a"}}, {70, nil}, {90, nil}, {110, []string{"VmGroupVCenterUnknown"}},
			{195, []string{"VmGroupVCenterUnknown"}}, {215, nil}}},
		"two of three members are out of vCenter's sight": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			web := f.group("shop", "web", 3)
			f.group("bank", "db", 3)
			f.until(30)
			hide(f, web, 1, 2)
			f.until(110)
		}, []firing{{30, nil}, {33, nil}, {50, []string{"VmGroupHostUnreachable"}}, {105, []string{"VmGroupHostUnreachable"}}}},
		"the password is changed, and changed back, while one group is blocked": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "lacking", 2).Spec.Template = "missing"
			for _, name := range failing {
				f.group("bank", name, 1)
			}
			f.until(30)
			was, _ := f.URL().User.Password()
			f.SetPassword("another")
			f.DropSessions()
			f.until(60)
			f.SetPassword(was)
			f.until(100)
		}, []firing{{29, []string{"VmGroupBlocked shop/lacking"}}, {35, []string{"VmGroupBlocked shop/lacking"}}, {45, []string{"VmGroupBlocked shop/lacking", "VmGroupVCenterUnknown"}},
			{59, []string{"VmGroupBlocked shop/lacking", "VmGroupVCenterUnknown"}}, {95, []string{"VmGroupBlocked shop/lacking"}}}},
		"all hosts are down for half an hour": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			for _, name := range failing {
				f.group("shop", name, 2)
			}
			f.until(20)
			setHosts(f, false)
			f.until(50)
			setHosts(f, true)
			f.until(70)
		}, []firing{{20, nil}, {24, nil}, {28, []string{"VmGroupHostUnreachable"}}, {49, []string{"VmGroupHostUnreachable"}}, {55, nil}, {69, nil}}},
		"a guest hangs": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "web", 2)
			f.until(10)
			const hangs = "/DC0/vm/vm-operator/shop/web/web-0"
			must.Succeed(f.t, f.SetTools(hangs, true))
			f.until(20)
			must.Succeed(f.t, f.SetTools(hangs, false))
			f.until(50)
			must.Succeed(f.t, f.SetTools(hangs, true))
			f.until(60)
		}, []firing{{20, nil}, {33, nil}, {40, []string{"VmGroupToolsSilent shop/web"}}, {52, nil}, {60, nil}}},
		"Metacontroller dies for an hour while a group is blocked": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "lacking", 2).Spec.Template = "missing"
			f.group("bank", "db", 2)
			f.until(30)
			f.called = ""
			f.until(90)
			f.called = "a"
			f.until(110)
		}, []firing{{29, []string{"VmGroupBlocked shop/lacking"}}, {33, []string{"VmGroupBlocked shop/lacking"}}, {37, []string{"VmGroupBlocked shop/lacking", "VmGroupMetacontrollerSilent"}},
			{89, []string{"VmGroupBlocked shop/lacking", "VmGroupMetacontrollerSilent"}}, {95, []string{"VmGroupBlocked shop/lacking"}}, {109, []string{"VmGroupBlocked shop/lacking"}}}},
		"blocked groups": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			lacking, edited := f.group("shop", "lacking", 2), f.group("bank", "edited", 2)
			lacking.Spec.Template = "missing"
			f.until(30)
			edited.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = -1 })
			f.until(60)
			edited.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 2 })
			lacking.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "vm-operator-template" })
			f.until(90)
		}, []firing{{3, nil}, {29, []string{"VmGroupBlocked shop/lacking"}},
			{55, []string{"VmGroupBlocked bank/edited", "VmGroupBlocked shop/lacking"}}, {85, nil}}},
		"a blocked group without the metrics of each group": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.end("a")
			f.start("a", false)
			f.group("shop", "web", 2).Spec.Template = "missing"
			f.until(40)
		}, []firing{{10, nil}, {30, []string{"VmGroupsBlocked"}}}},
		"the clones of some groups end in a fault that says nothing of its cause": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("bank", "db", 2)
			f.until(20)
			f.FailTask(vcsim.Clone, nil, &vim.SystemError{}, 0)
			for _, name := range failing {
				f.group("shop", name, 1)
			}
			f.until(100)
			f.HealTasks()
			f.until(130)
		}, []firing{{20, nil}, {90, []string{"VmGroupSiteTrouble"}}, {130, nil}}},
		"groups wait for slots": {9 * time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "one", 90)
			f.group("shop", "two", 90)
			f.until(55)
		}, []firing{{30, nil}, {50, []string{"VmGroupsQueue a"}}}},
		"Metacontroller is silent, a pod is replaced, and all groups are deleted": {time.Minute, []string{"a"}, func(_ *testing.T, f *fleet) {
			f.group("shop", "web", 2)
			f.group("bank", "db", 1)
			f.until(20)
			f.called = ""
			f.until(50)
			f.end("a")
			f.start("b", true)
			f.until(90)
			f.called = "b"
			f.until(120)
			for _, g := range f.groups {
				_, err := g.Finalize(context.Background())
				must.Succeed(f.t, err)
			}
			f.until(180)
			f.end("b")
			f.called = ""
			f.until(200)
		}, []firing{{23, nil}, {30, []string{"VmGroupMetacontrollerSilent"}}, {50, []string{"VmGroupMetacontrollerSilent"}}, {85, []string{"VmGroupMetacontrollerSilent"}}, {95, nil}, {119, nil}, {125, nil}, {180, nil}, {195, []string{"VmGroupServerAbsent"}}}},
		"keys end, can't be read, and don't fit": {time.Minute, []string{"a"}, func(t *testing.T, f *fleet) {
			cert, key := expiring(t, f.began.Add(7*24*time.Hour+30*time.Minute))
			token := filepath.Join(t.TempDir(), "token")
			must.Succeed(t, os.WriteFile(token, []byte(rand.Text()), 0o600))
			g, err := guard.New(guard.Config{CertFile: cert, KeyFile: key, TokenFiles: []string{token}, Log: zerolog.Nop(), Meter: f.replicas["a"].registry})
			must.Succeed(t, err)
			hooks := g.Server(http.NotFoundHandler(), guard.Limits{}).Handler
			f.until(60, func() {
				if f.minutes < 10 {
					return
				}
				r := httptest.NewRequest("POST", "/sync", nil)
				r.Header.Set("Authorization", "Bearer of-another-time")
				hooks.ServeHTTP(httptest.NewRecorder(), r)
			})
			must.Succeed(t, os.Rename(key, key+".former"))
			must.Succeed(t, os.Mkdir(key, 0o700)) // a directory, because root can read any file regardless of its mode
			f.until(85)
			must.Succeed(t, os.Remove(key))
			must.Succeed(t, os.Rename(key+".former", key))
			f.until(130)
		}, []firing{{30, nil}, {55, []string{"VmGroupCallersRefused"}}, {70, []string{"VmGroupCallersRefused", "VmGroupKeyFilesUnreadable"}},
			{84, []string{"VmGroupKeyFilesUnreadable"}}, {89, nil}, {125, []string{"VmGroupCertificateEnds"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var tests string
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, story.clone, story.pods...)
				story.live(t, f)
				tests = f.tests(story.want)
			})
			rules := rules(t)
			for i, d := range all {
				if said := d.promtool(t, rules, tests); said != "" {
					t.Errorf("Debian %s: %s; want none", d.release, said)
				}
				if i > 0 {
					continue
				}
				if said := d.promtool(t, strings.ReplaceAll(rules, "for: ", "for: 9"), tests); said == "" && slices.ContainsFunc(story.want, func(w firing) bool { return w.alerts != nil }) {
					t.Error("planted: with longer waits, promtool finds nothing")
				}
			}
		})
	}
}

// expiring returns the files of a certificate that expires at this time, and of its key.
func expiring(t *testing.T, end time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.Succeed(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	must.Succeed(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must.Succeed(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile
}

// alwaysRolling begins an update of another group every eight minutes. An update takes over fifteen minutes, three clones of five, so that the
// fleet is never at rest, whichever update ends when.
func alwaysRolling(t *testing.T, f *fleet) {
	for _, name := range []string{"one", "two", "three", "four"} {
		f.group("shop", name, 3)
	}
	const first, every = 25, 8
	next := 0
	f.until(160, func() {
		rolling := slices.ContainsFunc(f.groups, func(g *metacontroller.Group) bool { return g.Status.Phase != v1alpha1.PhaseRunning })
		if f.minutes > first && !rolling {
			t.Errorf("minute %d: no group is being updated, want one", f.minutes)
		}
		if f.minutes == first+next*every {
			f.groups[next%len(f.groups)].Edit(func(s *v1alpha1.VmGroupSpec) {
				s.Template = map[bool]string{true: "vm-operator-template", false: "vm-operator-template-2"}[s.Template != "vm-operator-template"]
			})
			next++
		}
	})
}

// hide hides members from the server's account, as after the loss of a privilege or of a host's connection.
func hide(f *fleet, g *metacontroller.Group, ordinals ...int) {
	for _, n := range ordinals {
		f.Hide(vim.ManagedObjectReference{Type: "VirtualMachine", Value: g.Status.Members[n].MoRef})
	}
	f.DropSessions()
}

// setHosts has vCenter lose, or find again, the hosts of all members.
func setHosts(f *fleet, connected bool) {
	f.t.Helper()
	for _, host := range []string{"/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/host/DC0_C0/DC0_C0_H1", "/DC0/host/DC0_C0/DC0_C0_H2"} {
		if _, err := f.Find(host); err == nil {
			must.Succeed(f.t, f.SetConnected(host, connected))
		}
	}
}
