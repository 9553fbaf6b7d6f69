package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Trouble is why a group isn't RUNNING, for metrics and alerts; the zero Trouble if it is. One cause is one alert: what is the site's trouble is told to
// the people who run it, once, and not for each group that suffers from it.
type Trouble struct {
	// Reason is that of the condition Ready: one of a fixed number of words.
	Reason string
	Scope  TroubleScope
	Harm   Harm
}

// TroubleScope says who can end a trouble.
type TroubleScope string

// The scopes.
const (
	// OfVCenter: vCenter's state is unknown. The server says why, for all groups at once.
	OfVCenter TroubleScope = "vcenter"
	// OfSite: those who run the server, vCenter or its hosts.
	OfSite TroubleScope = "site"
	// OfGroup: the group's owner, or time.
	OfGroup TroubleScope = "group"
)

// Harm says how much a group serves.
type Harm string

// The harms.
const (
	// Down: members exist, and none is available. A group without members is being made, or can't be.
	Down Harm = "down"
	// Degraded: fewer members are available than wanted.
	Degraded Harm = "degraded"
	// Unharmed: all are, or the group is being deleted.
	Unharmed Harm = "none"
)

// ofSite are the reasons of troubles that no owner of a group can end. They are those of steps that vCenter refused, too: whichever group shows one, the
// same people have to act.
var ofSite = []string{
	"AnswerTooLarge", "CertificateNotTrusted", "CredentialsUnreadable", "InvalidLogin", "NotAuthenticated", "NotVCenter", "NotVCenterAPI", "VCenterUnreachable", ReasonInventoryNotRead,
	"DRSManual", "DatastoreFull", "DatastoreInaccessible", "FailoverCapacity", "HostNotConnected", "Internal", "LibraryUnavailable", "LicenseMissing", "MarkLimit", "MissingPrivilege",
	"ResourceLimit", "StoragePolicyUnavailable", "TaggingUnavailable", "Timeout", "TooManyClones",
	ReasonHostFull, ReasonOtherInstall, ReasonProbeRefused, ReasonUnreachable, ReasonVCenterChanged,
}

// SiteReasons are the reasons whose troubles have the scope OfSite.
func SiteReasons() []string { return slices.Clone(ofSite) }

// ScopeOf returns who can end what a reason says, while vCenter's state is known.
func ScopeOf(reason string) TroubleScope {
	if slices.Contains(ofSite, reason) {
		return OfSite
	}
	return OfGroup
}

// TroubleOf returns why a group with that status isn't RUNNING. s is vCenter's state when the status was made.
func TroubleOf(status *v1alpha1.VmGroupStatus, s *VCenterState, finalizing bool) Trouble {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if status.Phase == v1alpha1.PhaseRunning || ready == nil || ready.Status == metav1.ConditionTrue {
		return Trouble{}
	}
	t := Trouble{Reason: ready.Reason, Scope: ScopeOf(ready.Reason), Harm: HarmOf(status, finalizing)}
	switch outage := s.Outage(); {
	case outage != nil && outage.Reason == t.Reason:
		t.Scope = OfVCenter
	case s.Fault != nil && s.Fault.Reason == t.Reason: // the server's settings don't fit vCenter
		t.Scope = OfSite
	}
	return t
}

// HarmOf returns how much a group with that status serves.
func HarmOf(status *v1alpha1.VmGroupStatus, finalizing bool) Harm {
	switch {
	case finalizing || status.AvailableReplicas >= status.DesiredReplicas:
		return Unharmed
	case status.AvailableReplicas == 0 && status.CurrentReplicas > 0:
		return Down
	}
	return Degraded
}

// HostTrouble is a host with members that vCenter can't reach.
type HostTrouble struct {
	// Host is the host's name; empty if it isn't known.
	Host string
	// State is vCenter's word for what is wrong: "disconnected", "inaccessible".
	State string
	// Members is the number of these members, and Groups are their groups.
	Members int
	Groups  []Ref
	// Since is when the first of them ceased to be ready; zero if it isn't known.
	Since time.Time
}

// HostTroubles returns the hosts on which vCenter can't reach members, by name and state.
func HostTroubles(groups []Listed) (all []HostTrouble) {
	at := map[[2]string]int{}
	for i := range groups {
		for j := range groups[i].VMs {
			vm := &groups[i].VMs[j]
			if vm.Reachable {
				continue
			}
			key := [2]string{Printable(vm.Host), vm.Unreachable}
			k, has := at[key]
			if !has {
				k = len(all)
				at[key], all = k, append(all, HostTrouble{Host: key[0], State: key[1]})
			}
			h := &all[k]
			if h.Members++; len(h.Groups) == 0 || h.Groups[len(h.Groups)-1] != groups[i].Ref {
				h.Groups = append(h.Groups, groups[i].Ref)
			}
		}
	}
	slices.SortFunc(all, func(a, b HostTrouble) int {
		return cmp.Or(cmp.Compare(b.Members, a.Members), strings.Compare(a.Host, b.Host), strings.Compare(a.State, b.State))
	})
	return all
}
