"""PTX, as Triton makes it, in C: a function that runs one thread of a kernel.

Registers are C variables that hold bits. What an instruction does is an expression of
the tables below; one that is not there is refused, never skipped. `ptx.h` has the rest:
memory, barriers, warps and the order in which threads run.
"""

import re

SPECIAL = {
    "%tid.x": "now->id",
    "%laneid": "(now->id % 32)",
    **{f"%ctaid.{axis}": f"now->program->{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"grid[{i}]" for i, axis in enumerate("xyz")},
}
REGISTERS = {"pred": "int", "b16": "u16", "b32": "u32", "b64": "u64"}
REGISTERS |= {"f32": "u32", "f64": "u64"}
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
WIDER |= {"u64": "u128", "s64": "s128"}

HALVES = ("f16", "bf16")  # floats that are read, and computed with as f32

# T is the type of an instruction, U the same unsigned, W twice as wide, N its bits.
INTEGER = {
    "add": "({U}){a} + ({U}){b}",
    "sub": "({U}){a} - ({U}){b}",
    "and": "({U}){a} & ({U}){b}",
    "or": "({U}){a} | ({U}){b}",
    "xor": "({U}){a} ^ ({U}){b}",
    "not": "~({U}){a}",
    "neg": "-({U}){a}",
    "min": "({T}){a} < ({T}){b} ? ({T}){a} : ({T}){b}",
    "max": "({T}){a} > ({T}){b} ? ({T}){a} : ({T}){b}",
    "mul.lo": "({U}){a} * ({U}){b}",
    "mul.hi": "(({W})({T}){a} * ({W})({T}){b}) >> {N}",
    "mul.wide": "({W})({T}){a} * ({W})({T}){b}",
    "mad.lo": "({U}){a} * ({U}){b} + ({U}){c}",
    "mad.wide": "({W})({T}){a} * ({W})({T}){b} + {c}",
    "div": "({T}){b} ? ({T}){a} / ({T}){b} : ({T})-1",
    "shl": "(u32){b} >= {N} ? 0 : ({U}){a} << (u32){b}",
    "popc": "__builtin_popcountll(({U}){a})",
    "bfe.u": "(({U}){a} >> {b}) & ((({U})1 << {c}) - 1)",
    "bfe.s": "({T})(({U}){a} << ({N} - {b} - {c})) >> ({N} - {c})",
    "shr.u": "(u32){b} >= {N} ? 0 : ({T}){a} >> (u32){b}",
    "shr.s": "({T}){a} >> ((u32){b} >= {N} ? {N} - 1 : (u32){b})",
}
FLOAT = {  # S is the suffix of a function of C for the type
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "fma": "__builtin_fma{S}({a}, {b}, {c})",
    "max": "fmax{S}({a}, {b})",
    "max.NaN": "{a} != {a} ? {a} : {b} != {b} ? {b} : fmax{S}({a}, {b})",
    "ex2": "exp2{S}({a})",  # a GPU's is off by two units in the last place
}
PREDICATE = {"and": "{a} && {b}", "or": "{a} || {b}", "not": "!{a}"}
PREDICATE |= {"xor": "!{a} != !{b}"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNORDERED = {  # of floats, some of which may be no numbers
    "num": "{a} == {a} && {b} == {b}",
    "nan": "{a} != {a} || {b} != {b}",
    "equ": "!({a} < {b} || {a} > {b})",
    "neu": "!({a} == {b})",
    "ltu": "!({a} >= {b})",
    "leu": "!({a} > {b})",
    "gtu": "!({a} <= {b})",
    "geu": "!({a} < {b})",
}
ATOMIC = {
    "add": "old_ + ({T}){x}",
    "min": "({T}){x} < old_ ? ({T}){x} : old_",
    "cas": "old_ == ({T}){x} ? ({T}){y} : old_",
}
SHUFFLES = ("up", "down", "bfly", "idx")
REDUCTIONS = ("add.s32", "max.s32")


class UnknownPTXError(NotImplementedError):
    """An instruction or operand that the tables do not have."""


def to_c(ptx: str) -> str:
    """The source of `void kernel(void)`, of the only entry of a module."""
    return _Translation(ptx).source()


def _type(name: str) -> str:
    """The C type of a PTX type; bits are unsigned."""
    return "u" + name[1:] if name[0] == "b" else name


def _operands(text: str) -> list[str]:
    """Splits at commas that are not in braces or brackets."""
    return [part.strip() for part in re.split(r",(?![^{\[(]*[}\])])", text)]


def _listed(operand: str) -> list[str]:
    """The operands of a vector, or the only one."""
    return [part.strip() for part in operand.strip("{} ").split(",")]


def _label(name: str) -> str:
    return name.replace("$", "L_")


class _Translation:
    """One kernel on its way to C."""

    def __init__(self, ptx: str) -> None:
        entry = re.search(r"\.visible \.entry \w+\(", ptx)
        threads = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx)
        if entry is None or threads is None or threads[1] not in ("32", "64", "128"):
            raise UnknownPTXError("not one entry of 32, 64 or 128 threads")
        start = ptx.index("{", entry.end()) + 1
        self.body = ptx[start : ptx.index("$L__func_end0")]
        declared = re.findall(r"\.(?:global|shared)\b[^;={]*?(\w+)\[", ptx[:start])
        self.symbols = set(declared)
        self.site = ""
        self.targets: dict[str, list[str]] = {}
        self.registers: list[str] = []
        self.lines: list[str] = []
        self.block: list[int] = []  # instructions since the last label or jump

    def source(self) -> str:
        """The whole file."""
        for statement in self._statements():
            self._translate(statement)
        lines = [line(self) if callable(line) else line for line in self.lines]
        whole = ["void kernel(void) {", *self.registers, *lines, "return;", "}"]
        return "\n".join(['#include "ptx.h"', *whole, ""])

    def _statements(self):
        """Labels and instructions, in order; `site` is where each comes from."""
        text = ""
        for line in self.body.splitlines():
            code, _, comment = line.partition("//")
            code = code.strip()
            if code.startswith(".loc"):
                self.site = comment.split("@")[0].strip() or code
            elif code and not code.startswith((".pragma", ".file")):
                text = f"{text} {code}".strip()
                while text:
                    found = re.match(r"([$\w]+):(?!:)|[{}](?!\s*%)|[^;]*;", text)
                    if found is None:
                        break  # goes on in the next line
                    yield found[0].rstrip(";").strip()
                    text = text[found.end() :].strip()

    def _translate(self, statement: str) -> None:
        if statement in ("", "{", "}"):
            return
        if statement.endswith(":"):
            self.block = []
            self.lines.append(f"{_label(statement)};")
            self.last_label = statement[:-1]
        elif statement.startswith(".branchtargets"):
            targets = statement.split(None, 1)[1]
            self.targets[self.last_label] = [_label(x) for x in _operands(targets)]
        elif statement.startswith(".reg"):
            self._declare(statement)
        elif not statement.startswith("."):
            guard, negated, name, rest = re.fullmatch(
                r"(@(!?)%(\w+)\s+)?(.*)", statement, re.DOTALL
            ).groups()
            operation, *given = rest.split(None, 1)
            code = self._instruction(operation, _operands(given[0]) if given else [])
            if guard and callable(code):
                raise UnknownPTXError(statement)
            self._count(operation)
            self.lines.append(f"if ({negated}{name}) {{ {code} }}" if guard else code)

    def _count(self, operation: str) -> None:
        """Has every block count its instructions, also those that a guard skips."""
        if not self.block:
            block = self.block = [0]
            self.lines.append(lambda whole: f"executed += {block[0]};")
        self.block[0] += 1
        if operation.startswith(("bra", "brx")):
            self.block = []

    def _declare(self, statement: str) -> None:
        found = re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>", statement)
        if found is None:
            raise UnknownPTXError(statement)
        names = ", ".join(f"{found[2]}{i} = 0" for i in range(int(found[3])))
        if names:
            self.registers.append(f"{REGISTERS[found[1]]} {names};")

    def _value(self, operand: str) -> str:
        """An operand as an expression of bits."""
        if operand in SPECIAL:
            return SPECIAL[operand]
        if re.fullmatch(r"%\w+", operand):
            return operand[1:]
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", operand):
            return f"0x{operand[2:]}ull"
        if operand == str(-(1 << 63)):
            return "((s64)1 << 63)"
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
            return f"({operand}ll)"
        if operand in self.symbols:
            return "0"  # shared memory starts there; messages are not read
        raise UnknownPTXError(operand)

    def _address(self, operand: str) -> str:
        parts = operand.strip("[] ").split("+")
        return " + ".join(f"(u64){self._value(part.strip())}" for part in parts)

    def _instruction(self, operation: str, given: list[str]):
        """The C of one instruction."""
        parts = operation.split(".")
        name = parts[0]
        own = getattr(self, f"_{name}", None)
        if own is not None:
            return own(parts, given)
        return self._arithmetic(parts, given)

    def _arithmetic(self, parts: list[str], given: list[str]) -> str:
        name, kind = parts[0], parts[-1]
        values = dict(zip("abc", map(self._value, given[1:]), strict=False))
        target = self._value(given[0])
        if kind == "pred" and name in PREDICATE:
            return f"{target} = {PREDICATE[name].format(**values)};"
        if kind in ("f32", "f64") and name in FLOAT:
            values = {key: f"{kind}_of({value})" for key, value in values.items()}
            values["S"] = "f" if kind == "f32" else ""
            name = f"{name}.NaN" if "NaN" in parts else name
            return f"{target} = bits_of_{kind}({FLOAT[name].format(**values)});"
        way = next((part for part in parts if part in ("lo", "hi", "wide")), None)
        T = _type(kind)
        way = T[0] if name in ("bfe", "shr") else way
        name = f"{name}.{way}" if way else name
        if name not in INTEGER or T not in WIDER:
            raise UnknownPTXError(".".join(parts))
        types = {"T": T, "U": "u" + T[1:], "W": WIDER[T], "N": T[1:]}
        return f"{target} = {INTEGER[name].format(**values, **types)};"

    def _mov(self, parts: list[str], given: list[str]) -> str:
        target, source = given
        half = {"b32": 16, "b64": 32}.get(parts[-1])
        if "{" in source:
            low, high = map(self._value, _listed(source))
            whole = f"u{2 * half}"
            bits = f"({whole})(u{half}){low} | ({whole})(u{half}){high} << {half}"
            return f"{self._value(target)} = {bits};"
        if "{" in target:
            shifts = zip(_listed(target), (0, half), strict=True)
            return " ".join(
                f"{self._value(part)} = (u{half})({self._value(source)} >> {shift});"
                for part, shift in shifts
                if part != "_"
            )
        return f"{self._value(target)} = {self._value(source)};"

    def _selp(self, parts: list[str], given: list[str]) -> str:
        target, a, b, test = map(self._value, given)
        return f"{target} = {test} ? {a} : {b};"

    def _setp(self, parts: list[str], given: list[str]) -> str:
        real = parts[-1][0] == "f"
        compare = COMPARE | UNORDERED if real else COMPARE
        if len(parts) != 3 or len(given) != 3 or parts[1] not in compare:
            raise UnknownPTXError(".".join(parts))
        kind, (target, *values) = parts[2], map(self._value, given)
        cast = f"{kind}_of" if real else f"({_type(kind)})"
        a, b = (f"{cast}({value})" for value in values)
        if real and parts[1] == "ne":
            return f"{target} = {a} < {b} || {a} > {b};"
        if parts[1] in UNORDERED:
            return f"{target} = {UNORDERED[parts[1]].format(a=a, b=b)};"
        return f"{target} = {a} {COMPARE[parts[1]]} {b};"

    def _cvt(self, parts: list[str], given: list[str]) -> str:
        to, source = parts[-2:]
        target, value = map(self._value, given)
        if to in HALVES or (source in HALVES and to != "f32"):
            raise UnknownPTXError(".".join(parts))
        floats = to[0] == "f", source[0] == "f" or source in HALVES
        value = f"{source}_of({value})" if floats[1] else f"({_type(source)}){value}"
        if floats[0]:
            return f"{target} = bits_of_{to}({value});"
        if floats[1] and "rzi" not in parts:
            raise UnknownPTXError(".".join(parts))
        return f"{target} = ({_type(to)}){value};"

    def _cvta(self, parts: list[str], given: list[str]) -> str:
        return f"{self._value(given[0])} = {self._value(given[1])};"

    def _ld(self, parts: list[str], given: list[str]) -> str:
        T = _type(parts[-1])
        if "param" in parts:
            number = re.search(r"_param_(\d+)\]$", given[1])
            if number is None:
                raise UnknownPTXError(given[1])
            return f"{self._value(given[0])} = ({T})arguments[{number[1]}];"
        shared, address = self._place(parts, given[1])
        load = f"LOAD_SHARED({T}, {{}})" if shared else f"LOAD({T}, {{}}, {self._at()})"
        whole = [
            f"{self._value(target)} = {load.format(f'at_ + {i} * sizeof({T})')};"
            for i, target in enumerate(_listed(given[0]))
        ]
        return f"{{ u64 at_ = {address}; {' '.join(whole)} }}"

    def _ldmatrix(self, parts: list[str], given: list[str]) -> str:
        targets = _listed(given[0])
        known = ["sync", "aligned", "m8n8", f"x{len(targets)}", "shared", "b16"]
        if parts[1:] != known:
            raise UnknownPTXError(".".join(parts))
        loads = [f"{self._value(t)} = matrix({i}, at_);" for i, t in enumerate(targets)]
        return f"{{ u32 at_ = {self._address(given[1])}; {' '.join(loads)} }}"

    def _st(self, parts: list[str], given: list[str]) -> str:
        T = _type(parts[-1])
        if "param" in parts:
            return ";"  # of a message
        shared, address = self._place(parts, given[0])
        store = "STORE_SHARED({}, {}, {});" if shared else "STORE({}, {}, {}, {});"
        whole = [
            store.format(T, f"at_ + {i} * sizeof({T})", self._value(source), self._at())
            for i, source in enumerate(_listed(given[1]))
        ]
        return f"{{ u64 at_ = {address}; {' '.join(whole)} }}"

    def _place(self, parts: list[str], operand: str) -> tuple[bool, str]:
        """Tells if memory is the program's own, and its address."""
        shared = any(part.startswith("shared") for part in parts)
        if not shared and "global" not in parts:
            raise UnknownPTXError(".".join(parts))
        return shared, self._address(operand)

    def _at(self) -> str:
        return f'"{self.site}"'

    def _atom(self, parts: list[str], given: list[str]) -> str:
        kinds = [part for part in parts if part in ATOMIC]
        if "global" not in parts or len(kinds) != 1:
            raise UnknownPTXError(".".join(parts))
        T, more = _type(parts[-1]), dict(zip("xy", given[2:], strict=False))
        values = {name: self._value(value) for name, value in more.items()}
        change = ATOMIC[kinds[0]].format(T=T, **values)
        done = f"UPDATE({T}, {self._address(given[1])}, {change}, {self._at()})"
        return f"{done};" if given[0] == "_" else f"{self._value(given[0])} = {done};"

    def _red(self, parts: list[str], given: list[str]) -> str:
        return self._atom(parts, ["_", *given])

    def _bar(self, parts: list[str], given: list[str]) -> str:
        if given != ["0"] or parts[1] == "warp":
            raise UnknownPTXError(".".join(parts))
        return "barrier();"

    _barrier = _bar

    def _shfl(self, parts: list[str], given: list[str]) -> str:
        target, *values = (self._value(part) for part in given[:4])
        mode = SHUFFLES.index(parts[2])
        return f"{target} = shuffle({mode}, {', '.join(values)});"

    def _redux(self, parts: list[str], given: list[str]) -> str:
        operation = ".".join(parts[2:])
        if operation not in REDUCTIONS:
            raise UnknownPTXError(".".join(parts))
        target, value = map(self._value, given[:2])
        return f"{target} = reduce({REDUCTIONS.index(operation)}, {value});"

    def _bra(self, parts: list[str], given: list[str]) -> str:
        return f"goto {_label(given[0])};"

    def _brx(self, parts: list[str], given: list[str]):
        """A jump by number; its targets may be declared behind it."""
        number, table = self._value(given[0]), given[1]

        def made(whole: "_Translation") -> str:
            jumps = enumerate(whole.targets[table])
            cases = "".join(f"case {i}: goto {target}; " for i, target in jumps)
            return f"switch ({number}) {{ {cases}}}"

        return made

    def _ret(self, parts: list[str], given: list[str]) -> str:
        return "return;"

    def _trap(self, parts: list[str], given: list[str]) -> str:
        return "trapped = 1; switch_thread();"

    def _call(self, parts: list[str], given: list[str]) -> str:
        """Of `__assertfail` only, which ends all programs."""
        if not any("__assertfail" in part for part in given):
            raise UnknownPTXError(f"{'.'.join(parts)} {given}")
        return "trapped = 1; switch_thread();"
