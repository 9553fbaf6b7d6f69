package vsphere

import (
	"net/http"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func envelope(body string) []byte {
	return []byte(`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>` + body + `</Body></Envelope>`)
}

func TestALoginAnsweredByAnotherServerIsAFault(t *testing.T) {
	for _, body := range []string{"", "<LoginResponse/>", "<LogoutResponse/>", "<html/>", `<LoginResponse><returnval xsi:type="xsd:int">7</returnval></LoginResponse>`} {
		faults := live(t, func(method string, _ int, s said) said {
			if method == "Login" {
				s.body = envelope(body)
			}
			return s
		})
		f := faults[0]
		if f == nil || f.Reason != vcfault.ReasonNotVCenterAPI || f.NeedsOperator || !vctest.Mentions(f.Message, "Login", "VC_HOST", "proxy") {
			t.Errorf("the answer %s to a login gave the fault %v; want %s, without an operator, with the call and the settings", body, f, vcfault.ReasonNotVCenterAPI)
		}
	}
}

// live fails if an address other than vCenter's own is called.
func TestARedirectOfVCenterIsRefusedWhereverItLeads(t *testing.T) {
	for n, method := range []string{"RetrieveServiceContent", "Login", "PbmRetrieveServiceContent", "REST POST session", "WaitForUpdatesEx"} {
		for i, to := range []string{"http://vcenter.test/sdk", "https://elsewhere.test/sdk", "/other"} {
			if thin.Out(3*n+i, 4) {
				continue
			}
			status := []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}[i]
			faults := live(t, func(called string, _ int, s said) said {
				if called == method {
					s.status, s.header = status, http.Header{"Location": {to}}
				}
				return s
			})
			reported := false
			for _, f := range faults {
				reported = reported || f.Reason == vcfault.ReasonNotVCenterAPI && strings.Contains(f.Message, "redirects")
			}
			if !reported {
				t.Errorf("a redirect of %s to %s gave the faults %v; want %s, which says that vCenter redirects", method, to, faults, vcfault.ReasonNotVCenterAPI)
			}
		}
	}
}
