package planner_test

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// placeStories are about where members run, what they know, and how they are found.
var placeStories = map[string]func(*story){
	"user data": func(s *story) {
		s.o.Group.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		s.o.Related.Fault = &plan.Fault{Reason: "SecretNotFound", NeedsOperator: true, Message: "Secret default/boot, which spec.userData names, is not there: create it"}
		s.happens("three members are applied; the Secret is missing", nothing)
		s.happens("it is created", func(o *plan.Observed) { o.Related = plan.Related{UserData: "#cloud-config", Digest: "0a1b"} })
		s.happens("it is lost: members stay", func(o *plan.Observed) {
			o.Related = plan.Related{Fault: &plan.Fault{Reason: "SecretNotFound", NeedsOperator: true, Message: "Secret default/boot, which spec.userData names, is not there: create it"}}
		})
		s.happens("an operator deletes web-1, which cannot be recreated", drop(1))
		s.happens("it is back, with another text: a new revision", func(o *plan.Observed) { o.Related = plan.Related{UserData: "#other", Digest: "2c3d"} })
		s.happens("the same text, which no guest reads, as a later server knows", func(o *plan.Observed) {
			o.Related.Unrecognized = `the key "user-data" of Secret default/boot, which spec.userData names, is in no format that guests read`
		})
	},
	"content library": func(s *story) {
		template, missing := s.o.State.Template, func(reason, message string, needsOperator bool) func(*plan.Observed) {
			return func(o *plan.Observed) {
				o.State.Template = plan.Template{Datacenter: "DC0", Fault: &plan.Fault{Reason: reason, Message: message, NeedsOperator: needsOperator, Transient: !needsOperator}}
			}
		}
		s.happens("three members of golden/ubuntu are applied", func(o *plan.Observed) {
			o.Group.Spec.Template, o.Group.Spec.Update.OnTemplateChange = "golden/ubuntu", v1alpha1.TemplateChangeReplace
			missing("LibraryReading", `The template "golden/ubuntu" is being looked for in the content libraries.`, false)(o)
		})
		s.happens("the item is an ISO", missing("LibraryItemUnusable", `The item "ubuntu" of the content library "golden" is of the type "iso", and only VM templates, OVFs and OVAs can be cloned: name one of these.`, true))
		s.happens("it is a VM template", func(o *plan.Observed) {
			o.State.Template = template
			o.State.Template.Fingerprint = "aaaaaaaaaa"
		})
		s.happens("it is removed: members stay", missing("TemplateNotFound", `The template "golden/ubuntu" is not found.`, true))
		s.happens("an operator deletes web-1, which cannot be recreated", drop(1))
		s.happens("a newer version is checked in", func(o *plan.Observed) {
			o.State.Template = template
			o.State.Template.Fingerprint = "bbbbbbbbbb"
		})
	},
	"zones": func(s *story) {
		s.happens("six members over three zones", func(o *plan.Observed) {
			o.Group.Spec.Placement.Zones = []string{"east", "west", "north"}
			s.scale(6)(o)
		})
		s.happens("scaled to 4", s.scale(4))
		s.happens("an operator deletes web-1: it comes back where it was", drop(1))
		s.happens("another template: each is replaced within its zone", func(o *plan.Observed) {
			edit(func(g *spec) { g.Template = "ubuntu-26.04" })(o)
			o.State.Template.Fingerprint = ""
		})
	},
	"addresses": func(s *story) {
		s.happens("three members, and four addresses", edit(func(g *spec) {
			g.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.13"}, PrefixLength: 24}}}
		}))
		s.happens("more addresses: no member is replaced", edit(func(g *spec) {
			g.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.13", "10.0.0.77"}, PrefixLength: 24}}}
		}))
		s.happens("as many addresses as members, another template, and all must stay available", edit(func(g *spec) {
			g.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.12"}, PrefixLength: 24}}}
			g.Template, g.Update.MaxUnavailable = "ubuntu-26.04", of(0)
		}))
		s.happens("one can be unavailable instead", edit(func(g *spec) { g.Update.MaxUnavailable, g.Update.MaxSurge = nil, of(0) }))
	},
	"tags": func(s *story) {
		s.happens("two members with a tag", func(o *plan.Observed) {
			o.Group.Spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}}
			s.scale(2)(o)
		})
		s.happens("another tag: they keep running", edit(func(g *spec) { g.Tags[0].Name = "bank" }))
		s.happens("no tag", edit(func(g *spec) { g.Tags = nil }))
	},
	"anti-affinity": func(s *story) {
		s.happens("two members, kept apart: required", func(o *plan.Observed) {
			o.Group.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityRequired
			s.scale(2)(o)
		})
		s.happens("scaled to 3", s.scale(3))
		s.happens("scaled to 1", s.scale(1))
		s.happens("the account isn't allowed to remove its rule: the message says what the privilege is for", func(o *plan.Observed) {
			o.State.RulesOff = true
			o.Pending = map[string]plan.Pending{plan.RulesKey: {Op: plan.SetRules, State: plan.BackingOff, Fault: plan.Fault{Reason: "MissingPrivilege", NeedsOperator: true,
				Message: "vCenter's user lacks the privilege Host.Inventory.EditCluster on /DC0/host/DC0_C0: grant it."}}}
		})
		s.happens("the privilege is granted", func(o *plan.Observed) { o.Pending = nil })
		s.happens("deleted; a rule is left", func(o *plan.Observed) { remove(o); o.State.RulesOff = true })
	},
	"host group": func(s *story) {
		s.happens("two members, at two sites: required", func(o *plan.Observed) {
			o.Group.Spec.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site-a", "site-b"}, Rule: v1alpha1.HostRuleRequired}
			s.scale(2)(o)
		})
		s.happens("scaled to 3", s.scale(3))
		s.happens("preferred: they keep running", func(o *plan.Observed) {
			o.Group.Spec.Placement.HostGroup.Rule, o.State.RulesOff = v1alpha1.HostRulePreferred, true
		})
		s.happens("its cluster lacks the host group", func(o *plan.Observed) {
			o.State.RulesOff = true
			o.Pending = map[string]plan.Pending{plan.RulesKey: {Op: plan.SetRules, State: plan.BackingOff, Fault: plan.Fault{Reason: "HostGroupNotFound", NeedsOperator: true,
				Message: `The cluster C0 has no DRS host group "site-b" with hosts in it: create it there.`}}}
		})
		s.happens("it is created", func(o *plan.Observed) { o.Pending = nil })
		s.happens("deleted", remove)
	},
	"drain": func(s *story) {
		s.happens("three members behind a Service, which drains for two minutes", edit(func(g *spec) { g.Service = &v1alpha1.Service{DrainSeconds: 120} }))
		s.happens("scaled to 2", s.scale(2))
		s.happens("scaled to 1, and to 2 again in time", func(o *plan.Observed) {
			s.scale(1)(o)
			for _, a := range planner.Make(*o).Actions {
				plan.Apply(o, a)
			}
			o.Now = o.Now.Add(time.Minute)
			s.scale(2)(o)
		})
		s.happens("deleted", remove)
	},
	"another folder": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("spec.placement.folder slipped past the schema", edit(func(g *spec) { g.Placement.Folder = "teams/shop" }))
		s.happens("scaled to 0: members are removed, wherever they are", s.scale(0))
		s.happens("it is taken back, and scaled to 1", func(o *plan.Observed) {
			edit(func(g *spec) { g.Placement.Folder = "" })(o)
			s.scale(1)(o)
		})
	},
}
