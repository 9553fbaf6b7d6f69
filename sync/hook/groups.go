package hook

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// groups answers with what this replica knows about all groups, without the actions that ended.
func (s *server) groups(w http.ResponseWriter, _ *http.Request) {
	all, _ := s.reports()
	for i := range all {
		all[i].Actions = nil
	}
	writeList(w, slices.Values(all))
}

// group answers with one group. While vCenter's inventory is unknown, a group that is not found may still exist.
func (s *server) group(w http.ResponseWriter, r *http.Request) {
	namespace, name := chi.URLParam(r, "namespace"), chi.URLParam(r, "name")
	all, known := s.reports()
	for i := range all {
		if all[i].Namespace == namespace && all[i].Name == name {
			write(w, all[i])
			return
		}
	}
	if !known {
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("this replica of the server was not called for a group %q, and vCenter's inventory is unknown", namespace+"/"+name))
		return
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is no group %q: this replica of the server was not called for it recently, and no VM in vCenter has its stamp", namespace+"/"+name))
}

// slots answers with how many steps this replica runs in vCenter, and how many it can run.
func (s *server) slots(w http.ResponseWriter, _ *http.Request) {
	all := plan.Slots{Limits: []plan.Limit{}}
	if s.Slots != nil {
		all = s.Slots()
	}
	write(w, all)
}

// reports returns the controller's groups, and the groups that are known only from stamps in vCenter. known reports whether the list is
// complete.
func (s *server) reports() (all []plan.Report, known bool) {
	var listed []plan.Listed
	if s.ListGroups != nil {
		listed, known = s.ListGroups()
	}
	return plan.AllReports(s.Controller.Groups(), listed, known), known
}
