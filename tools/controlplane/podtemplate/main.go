// Facts about pod-template-hash for crates/api/src/kinds/pod_template/hash. Upstream hashes a dump of the Go value, so the
// hash depends on the names, order and kinds of the fields of Go's types.
//
//	cd tools/controlplane
//	go run ./podtemplate types > ../../crates/api/src/kinds/pod_template/hash/types.txt
//	go run ./podtemplate vectors SEED COUNT        # random templates: hash, hash after a collision, JSON
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/controller"
	"sigs.k8s.io/randfill"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "types":
		types()
	case len(os.Args) == 4 && os.Args[1] == "vectors":
		vectors(number(os.Args[2]), int(number(os.Args[3])))
	default:
		fail("usage: podtemplate types | podtemplate vectors SEED COUNT")
	}
}

// Types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[intstr.IntOrString](): "intorstring",
	reflect.TypeFor[meta.Time]():          "time",
	reflect.TypeFor[meta.FieldsV1]():      "fields",
}

// Prints one line for each type, numbered from 0: its name in a dump, its kind, and what it consists of. A field of a struct
// is its Go name, its JSON name (none if it is inlined) and the number of its type.
func types() {
	numbers := map[reflect.Type]int{}
	var lines []string
	var visit func(t reflect.Type) int
	visit = func(t reflect.Type) int {
		if number, ok := numbers[t]; ok {
			return number
		}
		number := len(lines)
		numbers[t] = number
		lines = append(lines, "")
		lines[number] = t.String() + " " + describe(t, visit)
		return number
	}
	visit(reflect.TypeFor[core.PodTemplateSpec]())
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
}

func describe(t reflect.Type, visit func(reflect.Type) int) string {
	if name, ok := special[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	case reflect.String:
		return "string"
	case reflect.Pointer:
		return fmt.Sprint("pointer ", visit(t.Elem()))
	case reflect.Slice:
		return fmt.Sprint("slice ", visit(t.Elem()))
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			fail("%v: keys that are no strings", t)
		}
		return fmt.Sprint("map ", visit(t.Elem()))
	case reflect.Struct:
		words := []string{"struct"}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			words = append(words, fmt.Sprintf("%s:%s:%d", field.Name, name, visit(field.Type)))
		}
		return strings.Join(words, " ")
	default:
		fail("%v: a %v", t, t.Kind())
		return ""
	}
}

// Prints random templates as the API server would serve them: through protobuf, in which they are stored, and JSON.
func vectors(seed int64, count int) {
	source := rand.New(rand.NewSource(seed))
	filler := randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.7).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) { *q = quantity(source) },
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(source.Intn(70000))); source.Intn(2) == 0 {
				*v = intstr.FromString(text(source))
			}
		},
		func(t *meta.Time, c randfill.Continue) {},
		func(f *[]meta.ManagedFieldsEntry, c randfill.Continue) { *f = nil },
		func(t **meta.Time, c randfill.Continue) { *t = nil },
		func(s *string, c randfill.Continue) { *s = text(source) },
	)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for range count {
		var filled, stored, canonical, read core.PodTemplateSpec
		filler.Fill(&filled)
		check(stored.Unmarshal(must(filled.Marshal())))
		served := must(json.Marshal(stored))
		check(json.Unmarshal(served, &canonical))
		check(read.Unmarshal(must(canonical.Marshal())))
		collisions := int32(source.Intn(1000))
		fmt.Fprintf(out, "%s %s %d %s\n", controller.ComputeHash(&read, nil), controller.ComputeHash(&read, &collisions), collisions, served)
	}
}

var texts = []string{"", "a", "app", "0", "true", "x-y.z/w", "<&>", "é", "\u2028", "{", "map[", " ", "\"quoted\"", "日本", "line\nbreak", "😀"}

func text(source *rand.Rand) string { return texts[source.Intn(len(texts))] }

var suffixes = []string{"", "m", "u", "n", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-3", "E6"}

// A quantity: small, large, fractional or beyond 64 bits.
func quantity(source *rand.Rand) resource.Quantity {
	for {
		digits := strconv.FormatInt(source.Int63()>>source.Intn(63), 10)
		if source.Intn(8) == 0 {
			digits += strconv.FormatInt(source.Int63(), 10)
		}
		if source.Intn(4) == 0 {
			digits += "." + strconv.Itoa(source.Intn(10000))
		}
		if source.Intn(6) == 0 {
			digits = "-" + digits
		}
		if parsed, err := resource.ParseQuantity(digits + suffixes[source.Intn(len(suffixes))]); err == nil {
			return parsed
		}
	}
}

func number(text string) int64 { return must(strconv.ParseInt(text, 10, 64)) }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
